const tokenKey = 'quotegate-admin-token'
const silentMostMs = 5_000
const firstPauseMs = 400
const longestPauseMs = 4_000

class TokenRefused extends Error {}

export const storedToken = () => sessionStorage.getItem(tokenKey) ?? ''

/** In this tab, until it is closed. An empty token locks the page. */
export const keepToken = (token) => sessionStorage.setItem(tokenKey, token)

function authorization() {
  const token = storedToken()
  return token === '' ? {} : { Authorization: `Bearer ${token}` }
}

/** Runs an action of the console. If the gateway refuses, throws an error with the gateway's own words. */
export async function act(name, body = {}) {
  const answer = await fetch(`actions/${name}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Quotegate-Console': '1', ...authorization() },
    body: JSON.stringify(body),
  })
  const said = await answer.json().catch(() => ({}))
  if (!answer.ok) throw new Error(said.error ?? `The gateway answered ${answer.status}.`)
  return said
}

let handlers
let current
let next
let pauseMs = firstPauseMs

/**
 * Receives the gateway's events for the lifetime of the page: after a break it connects again. Not by an EventSource,
 * because that cannot send a token.
 */
export function receive({ onEvent, onState }) {
  handlers = { onEvent, onState }
  connect()
}

/** Connects at once, with the current token, instead of what is connected now. */
export function connect() {
  end()
  current = new AbortController()
  void run(current)
}

export function disconnect() {
  end()
  handlers.onState('waiting')
}

function end() {
  clearTimeout(next)
  current?.abort()
  current = undefined
}

async function run(connection) {
  try {
    for await (const { name, data } of received(connection)) {
      handlers.onEvent(name, data)
      pauseMs = firstPauseMs
    }
  } catch (error) {
    if (error instanceof TokenRefused) return handlers.onState('refused')
  }
  if (current !== connection) return
  handlers.onState('waiting')
  next = setTimeout(connect, pauseMs)
  pauseMs = Math.min(pauseMs * 1.6, longestPauseMs)
}

/** The events of one connection, until it ends or is silent for too long. */
async function* received(abort) {
  let watchdog = setTimeout(() => abort.abort(), silentMostMs)
  try {
    const headers = authorization()
    const answer = await fetch('stream', { headers, cache: 'no-store', signal: abort.signal })
    if (answer.status === 401) throw new TokenRefused()
    if (!answer.ok || answer.body === null) throw new Error(`the stream answered ${answer.status}`)
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    let pending = ''
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      clearTimeout(watchdog)
      watchdog = setTimeout(() => abort.abort(), silentMostMs)
      const events = (pending + value).split('\n\n')
      pending = events.pop() ?? ''
      for (const event of events) yield parsed(event)
    }
  } finally {
    clearTimeout(watchdog)
    abort.abort()
  }
}

function parsed(event) {
  const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event)
  return { name, data: JSON.parse(data) }
}
