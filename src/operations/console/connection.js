const tokenKey = 'quotegate-admin-token'
const askEveryMs = 1_000
const askEveryMsHidden = 5_000
const giveUpAfterMs = 10_000

export const storedToken = () => sessionStorage.getItem(tokenKey) ?? ''

/** Keeps the token until the tab is closed. An empty token locks the page. */
export const keepToken = (token) => sessionStorage.setItem(tokenKey, token)

function authorization() {
  const token = storedToken()
  return token === '' ? {} : { Authorization: `Bearer ${token}` }
}

/** Runs an action of the console. Throws the gateway's own words if it refuses. */
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

/** Reads a path that is not polled. */
export async function read(path) {
  const answer = await fetch(path, { headers: authorization() })
  if (!answer.ok) throw new Error(`The gateway answered ${answer.status}.`)
  return answer.json()
}

let handlers
/** The current or last request. */
let asking
let next
/** The ETag of the last status that was understood. */
let etag
/** Since when requests have had no answer. */
let unansweredSince

export const unansweredMs = () =>
  unansweredSince === undefined ? 0 : performance.now() - unansweredSince

/** Polls from now on: once a second, and less often in a hidden tab. */
export function receive(given) {
  handlers = given
  ask()
}

/** Asks at once with the current token, and gives up the request before. */
export function ask() {
  clearTimeout(next)
  asking?.abort()
  asking = new AbortController()
  unansweredSince ??= performance.now()
  void run(asking)
}

async function run(current) {
  const askedAt = performance.now()
  const givingUp = setTimeout(() => current.abort(), giveUpAfterMs)
  const answer = await fetchStatus(current.signal).catch(() => ({}))
  clearTimeout(givingUp)
  if (asking !== current) return
  // The gateway answers all pages together, a second after its last answer: a page that asked earlier waits until then.
  const everyMs = document.hidden ? askEveryMsHidden : askEveryMs
  next = setTimeout(ask, askedAt + everyMs - performance.now())
  take(answer)
}

async function fetchStatus(signal) {
  const headers = { ...authorization(), ...(etag && { 'If-None-Match': etag }) }
  const answer = await fetch('status', { headers, cache: 'no-store', signal })
  const { status } = answer
  const tag = answer.headers.get('etag')
  return { status, tag, said: status === 200 ? await answer.json() : undefined }
}

/** Other answers, of a proxy or a starting gateway, do not show how the gateway is. */
function take({ status, tag, said }) {
  if (status === 401 && storedToken() !== '') handlers.onRefused()
  if (status !== 200 && status !== 304) return
  unansweredSince = undefined
  // A status that is not understood is requested again as a whole.
  etag = undefined
  if (status === 200) handlers.onStatus(said)
  else handlers.onUnchanged()
  etag = tag
}
