const tokenKey = 'quotegate-admin-token'
const silentMostMs = 5_000
const firstPauseMs = 400
const longestPauseMs = 4_000

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
    headers: {
      'Content-Type': 'application/json',
      'X-Quotegate-Console': '1',
      ...authorization(),
    },
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
export function receive(given) {
  handlers = given
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
  const isRefused = await received(connection).catch(() => false)
  connection.abort()
  if (current !== connection) return
  if (isRefused) return handlers.onState('refused')
  handlers.onState('waiting')
  next = setTimeout(connect, pauseMs)
  pauseMs = Math.min(pauseMs * 1.6, longestPauseMs)
}

/** Until the connection ends or is silent for too long. Returns whether the token was refused. */
async function received(connection) {
  const { signal } = connection
  let watchdog
  const watch = () => {
    clearTimeout(watchdog)
    watchdog = setTimeout(() => connection.abort(), silentMostMs)
  }
  signal.addEventListener('abort', () => clearTimeout(watchdog))
  watch()
  const answer = await fetch('stream', {
    headers: authorization(),
    cache: 'no-store',
    signal,
  })
  if (!answer.ok) return answer.status === 401
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  let pending = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return false
    watch()
    const events = (pending + value).split('\n\n')
    pending = events.pop()
    for (const event of events) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event)
      handlers.onEvent(name, JSON.parse(data))
      pauseMs = firstPauseMs
    }
  }
}
