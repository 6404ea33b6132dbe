import { keepToken, storedToken } from './api.js'
import { element, setText } from './dom.js'
import { createEvents } from './events.js'
import { createHeader } from './header.js'
import { createOrders } from './orders.js'
import { createOutages } from './outages.js'
import { createQuotes } from './quotes.js'
import { createRequests } from './requests.js'
import { createSandbox } from './sandbox.js'
import { createSavings } from './savings.js'
import { createSettings } from './settings.js'
import { openStream } from './stream.js'
import { createTheme } from './theme.js'
import { createTiles } from './tiles.js'
import { createTryIt } from './try-it.js'
import { createUpstreams } from './upstreams.js'

const hiddenMostMs = 10_000
const saidForMs = 6_000

let access = 'reading'
let paused = false
let pageVersion
const notices = document.getElementById('notices')
const connection = document.getElementById('connection')
const unlock = document.getElementById('unlock')
const pause = document.getElementById('pause')
const skip = document.querySelector('.skip')
const context = { say, isFull: () => access === 'full', isPaused: () => paused }

createTheme()
const header = createHeader()
const overview = [header, createOutages(), createSavings()]
const panels = [
  createTiles(),
  createQuotes(context),
  createTryIt(),
  createRequests(context),
  createOrders(context),
  createSandbox(context),
  createSettings(),
  createUpstreams(),
  createEvents(),
]

// What scrolls must be reachable by keyboard, also where nothing in it takes the focus.
for (const box of document.querySelectorAll('.panel .scroll')) {
  box.tabIndex = 0
  box.setAttribute('role', 'group')
  box.setAttribute('aria-labelledby', box.closest('.panel').getAttribute('aria-labelledby'))
}

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
      hideWhatIsLocked()
      unlock.hidden = !frame.needsToken
      setText(unlock, access === 'full' ? 'Lock' : 'Unlock')
      tellAccess(frame)
      tellVersion(frame.health)
    }
    // What is wrong is shown even when paused.
    for (const part of overview) part[name]?.(frame)
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

/** What cannot be used, or is always empty, without full rights. */
function hideWhatIsLocked() {
  for (const node of document.querySelectorAll('[data-needs="full"]')) node.hidden = access !== 'full'
  skip.hash = access === 'full' ? '#requests' : '#quotes'
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

/** A page of one version may not understand all that another one says. */
function tellVersion({ version }) {
  pageVersion ??= version
  notice(
    'version',
    version === pageVersion ? undefined : `The gateway is now version ${version}: reload this page.`,
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
