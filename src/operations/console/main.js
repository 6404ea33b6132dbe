import { keepToken, storedToken } from './api.js'
import { element, setText } from './dom.js'
import { createHeader } from './header.js'
import { createOrders } from './orders.js'
import { createQuotes } from './quotes.js'
import { createRequests } from './requests.js'
import { createSandbox } from './sandbox.js'
import { createSettings } from './settings.js'
import { openStream } from './stream.js'
import { createTheme } from './theme.js'
import { createTiles } from './tiles.js'
import { createTryIt } from './try-it.js'

const hiddenMostMs = 10_000
const saidForMs = 6_000

let access = 'reading'
let paused = false
const notices = document.getElementById('notices')
const connection = document.getElementById('connection')
const unlock = document.getElementById('unlock')
const pause = document.getElementById('pause')
const context = { say, isFull: () => access === 'full', isPaused: () => paused }

createTheme()
const header = createHeader()
const panels = [
  createTiles(),
  createQuotes(context),
  createTryIt(context),
  createRequests(context),
  createOrders(context),
  createSandbox(context),
  createSettings(),
]

const words = { live: 'live', waiting: 'reconnecting', refused: 'locked out' }
function setState(state) {
  connection.dataset.state = state
  setText(connection, paused && state === 'live' ? 'paused' : words[state])
}

const stream = openStream({
  onState(state) {
    setState(state)
    if (state !== 'refused') return
    keepToken('')
    say('That is not the ADMIN_TOKEN.', 'error')
    stream.restart()
  },
  onEvent(name, frame) {
    setState('live')
    if (name === 'hello') {
      access = frame.access
      unlock.hidden = !frame.needsToken
      setText(unlock, access === 'full' ? 'Lock' : 'Unlock')
      tellAccess(frame)
    }
    header[name]?.(frame)
    warnOfPeers(frame.untrustedPeers)
    // `hello` is shown even when paused: the data on the page is of the connection before, maybe of another gateway.
    if (paused && name !== 'hello') return
    for (const panel of panels) panel[name]?.(frame)
  },
})

function notice(key, text, tone = '') {
  const known = [...notices.children].find((node) => node.dataset.key === key)
  if (text === undefined) return known?.remove()
  const node = known ?? element('p', { 'data-key': key })
  node.className = `notice ${tone}`
  setText(node, text)
  if (known === undefined) notices.append(node)
  return node
}

function say(text, tone = '') {
  const key = `said-${performance.now()}`
  notice(key, text, tone)
  setTimeout(() => notice(key, undefined), saidForMs)
}

function tellAccess({ needsToken }) {
  if (access === 'full') return notice('access', undefined)
  notice(
    'access',
    needsToken
      ? 'Read-only. Unlock with the ADMIN_TOKEN to see request details and to change things.'
      : 'Read-only: in production the console shows request details and changes things only with an ADMIN_TOKEN.',
  )
}

function warnOfPeers({ count, peers }) {
  if (count === 0) return notice('peers', undefined)
  const named = peers.length > 0 ? peers.slice(0, 5).join(', ') : `${count} peers`
  notice(
    'peers',
    `${named} sent a client-address header but ${count === 1 ? 'is' : 'are'} not in TRUST_PROXY: ` +
      'to the provider, all users behind it look like one.',
  )
}

pause.addEventListener('click', () => {
  paused = !paused
  pause.setAttribute('aria-pressed', String(paused))
  setText(pause, paused ? 'Resume' : 'Pause')
  setState(connection.dataset.state ?? 'waiting')
  if (!paused) stream.restart()
})

const dialog = document.getElementById('token-dialog')
unlock.addEventListener('click', () => {
  if (storedToken() === '') return dialog.showModal()
  keepToken('')
  stream.restart()
})
// Not a submit button: Enter in the field presses the first of those.
document.getElementById('token-cancel').addEventListener('click', () => dialog.close('cancel'))
dialog.addEventListener('close', () => {
  const field = dialog.querySelector('input')
  const token = field.value.trim()
  if (dialog.returnValue === 'ok' && token !== '') {
    // A token with other characters, such as a dash that a chat replaced, does not fit into a header.
    if (/^[\x21-\x7e]+$/.test(token)) {
      keepToken(token)
      stream.restart()
    } else say('An ADMIN_TOKEN has visible ASCII characters only.', 'error')
  }
  field.value = ''
  dialog.returnValue = ''
})

// A hidden tab closes its stream, so that it costs the gateway nothing.
let hiding
function stopWhileHidden() {
  clearTimeout(hiding)
  if (document.hidden) hiding = setTimeout(() => stream.stop(), hiddenMostMs)
}
stopWhileHidden()
document.addEventListener('visibilitychange', () => {
  stopWhileHidden()
  if (!document.hidden) stream.restart()
})
