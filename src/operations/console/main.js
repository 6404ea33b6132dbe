import { connect, disconnect, keepToken, receive, storedToken } from './connection.js'
import * as orders from './orders.js'
import * as outages from './outages.js'
import * as overview from './overview.js'
import { draw, html, page, redraw, said, say } from './page.js'
import * as panels from './panels.js'
import * as quotes from './quotes.js'
import * as requests from './requests.js'
import { holdOpenRows } from './rows.js'
import * as sandbox from './sandbox.js'
import * as tiles from './tiles.js'
import * as tryIt from './try-it.js'

const hiddenMostMs = 10_000
const countDownEveryMs = 250
const themeKey = 'quotegate-theme'
const themes = ['auto', 'dark', 'light']
const states = { live: 'live', waiting: 'reconnecting', refused: 'locked out' }

let state
/** The last `hello`. */
let greeting
let firstVersion
let theme = localStorage.getItem(themeKey) ?? 'auto'

/** By their places in index.html. */
const views = {
  ...overview,
  outages: outages.view,
  range: tiles.rangeChoice,
  tiles: tiles.view,
  requests: requests.view,
  quotes: quotes.view,
  upstreams: panels.upstreams,
  events: panels.events,
  try: tryIt.view,
  orders: orders.view,
  sandbox: sandbox.view,
  settings: panels.settings,
}

const byId = (id) => document.getElementById(id)

receive({
  onState(next) {
    state = next
    drawControls()
    if (state !== 'refused') return
    keepToken('')
    say('That is not the ADMIN_TOKEN.', 'bad')
    connect()
  },
  onEvent(name, frame) {
    state = 'live'
    try {
      take(name, frame)
      drawControls()
      holdOpenRows(drawPage)
    } catch (error) {
      // A defect of the page must be seen, and must not make it connect again without a pause.
      page.latest = undefined
      reportError(error)
      throw error
    }
  },
})

function take(name, frame) {
  if (name === 'hello') {
    greeting = frame
    firstVersion ??= frame.health.version
    page.isFull = frame.access === 'full'
    document.querySelector('.skip').hash = page.isFull ? '#requests' : '#quotes'
  }
  page.latest = { ...page.latest, ...frame }
  // `hello` is shown even when paused: the data on the page is of the connection before, maybe of another gateway.
  if (name !== 'hello' && page.isPaused) return
  page.shown = page.latest
  page.shownAt = performance.now()
  page.now = page.shownAt
  for (const panel of [tiles, requests, orders, panels, sandbox]) panel[name]?.(frame)
}

// What a user does may change what is drawn; these come here after the element that it was done to.
for (const name of ['redraw', 'click', 'input', 'change'])
  addEventListener(name, () => {
    drawControls()
    drawPage()
  })
redraw()
setInterval(() => {
  if (page.latest === undefined || page.isPaused) return
  page.now = performance.now()
  for (const name of ['quotes', 'try']) drawView(name)
}, countDownEveryMs)

/** What is known without a frame, so that it is right also where a frame cannot be understood. */
function drawControls() {
  const shown = page.isPaused && state === 'live' ? 'paused' : (states[state] ?? 'connecting')
  const tone = { live: 'good', waiting: 'bad' }[state]
  const lock = html`<button id="unlock" type="button" onClick=${unlock}>${page.isFull ? 'Lock' : 'Unlock'}</button>`
  draw(
    byId('controls'),
    html`<span id="connection" class="connection ${tone}" role="status" data-state=${state}>
        ${tone && html`<span class="dot"></span>`}${shown}</span>
      ${greeting?.needsToken && lock}
      <button type="button" aria-pressed=${page.isPaused} onClick=${pause}>${page.isPaused ? 'Resume' : 'Pause'}</button>
      <button type="button" onClick=${changeTheme}>Theme: ${theme}</button>`,
  )
  // The system's theme until the user chooses one.
  document.documentElement.style.colorScheme = theme === 'auto' ? '' : theme
  draw(byId('notices'), notices())
}

function notices() {
  const version = greeting?.health.version
  const locked = greeting?.needsToken
    ? 'Read-only. Unlock with the ADMIN_TOKEN to see request details and to change things.'
    : 'Read-only: in production the console shows request details and changes things only with an ADMIN_TOKEN.'
  // A page of one version may not understand all that another one says.
  const other = version !== firstVersion && `The gateway is now version ${version}: reload this page.`
  const standing = [greeting && !page.isFull && locked, other].filter(Boolean)
  const all = [...standing.map((text) => ({ key: text, text })), ...said]
  return all.map((one) => html`<p key=${one.key} class="notice ${one.tone ?? 'warn'}">${one.text}</p>`)
}

function drawPage() {
  if (page.latest === undefined) return
  if (!page.isPaused) page.now = performance.now()
  for (const name of Object.keys(views)) drawView(name)
}

function drawView(name) {
  draw(document.querySelector(`[data-view="${name}"]`), views[name]())
}

function pause() {
  page.isPaused = !page.isPaused
  if (!page.isPaused) connect()
}

function changeTheme() {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length]
  localStorage.setItem(themeKey, theme)
}

const dialog = byId('token-dialog')
function unlock() {
  if (storedToken() === '') return dialog.showModal()
  keepToken('')
  connect()
}
// Not a submit button: Enter in the field presses the first of those.
byId('token-cancel').addEventListener('click', () => dialog.close())
const form = dialog.querySelector('form')
form.addEventListener('submit', () => {
  const token = new FormData(form).get('token').trim()
  // A token with other characters, such as a dash that a chat replaced, does not fit into a header.
  if (!/^[\x21-\x7e]+$/.test(token)) return say('An ADMIN_TOKEN has visible ASCII characters only.', 'bad')
  keepToken(token)
  connect()
})
dialog.addEventListener('close', () => form.reset())

// A hidden tab closes its stream, so that it costs the gateway nothing.
let hiding
function stopWhileHidden() {
  clearTimeout(hiding)
  if (document.hidden) hiding = setTimeout(disconnect, hiddenMostMs)
}
stopWhileHidden()
document.addEventListener('visibilitychange', () => {
  stopWhileHidden()
  if (!document.hidden) connect()
})
