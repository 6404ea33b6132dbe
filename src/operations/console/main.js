import { connect, disconnect, keepToken, receive, storedToken } from './connection.js'
import * as orders from './orders.js'
import * as outages from './outages.js'
import { brand, health, savings } from './overview.js'
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

receive({
  onState(next) {
    state = next
    redraw()
    if (state !== 'refused') return
    keepToken('')
    say('That is not the ADMIN_TOKEN.', 'bad')
    connect()
  },
  onEvent(name, frame) {
    state = 'live'
    try {
      take(name, frame)
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
  addEventListener(name, drawPage)
redraw()
setInterval(() => page.isPaused || drawPage(), countDownEveryMs)

function drawPage() {
  if (!page.isPaused) page.now = performance.now()
  // The system's theme until the user chooses one.
  document.documentElement.style.colorScheme = theme === 'auto' ? '' : theme
  draw(document.body, view())
}

/** The controls need no frame, so that they are right also where a frame cannot be understood. */
function view() {
  const isKnown = page.latest !== undefined
  return html`<a class="skip" href=${page.isFull ? '#requests' : '#quotes'}>Skip to the tables</a>
    <header class="bar flow">
      <div class="brand flow">
        <img src="icon.svg" alt="" width="22" height="22" /><h1>quotegate</h1>${isKnown && brand()}
      </div>
      <ul id="health" class="health flow" aria-label="Health">${isKnown && health()}</ul>
      <div id="controls" class="controls flow">${controls()}</div>
    </header>
    <section id="outages" class="outages stack" aria-label="What is wrong now" aria-live="polite">
      ${isKnown && outages.view()}</section>
    <div id="notices" class="notices" aria-live="polite">${notices()}</div>
    <main>${isKnown && content()}</main>
    ${tokenDialog()}`
}

function content() {
  return html`<div class="overview flow">
      <p id="savings" class="savings flow">${savings()}</p>
      <fieldset id="range" class="range flow">${tiles.rangeChoice()}</fieldset>
    </div>
    <section id="tiles" class="tiles" aria-label="What happened lately">${tiles.view()}</section>
    <div class="columns">
      <div class="column">${requests.view()}${quotes.view()}</div>
      <div class="column">${panels.upstreams()}${panels.events()}${tryIt.view()}</div>
    </div>
    ${orders.view()}${sandbox.view()}${panels.settings()}`
}

function controls() {
  const shown =
    page.isPaused && state === 'live' ? 'paused' : (states[state] ?? 'connecting')
  const tone = { live: 'good', waiting: 'bad error' }[state]
  const lock = html`<button id="unlock" type="button" onClick=${unlock}>${page.isFull ? 'Lock' : 'Unlock'}</button>`
  return html`<span id="connection" class="connection dim flow ${tone}" role="status" data-state=${state}>
      ${tone && html`<span class="dot"></span>`}${shown}</span>
    ${greeting?.needsToken && lock}
    <button type="button" aria-pressed=${page.isPaused} onClick=${pause}>${page.isPaused ? 'Resume' : 'Pause'}</button>
    <button type="button" onClick=${changeTheme}>Theme: ${theme}</button>`
}

function notices() {
  const version = greeting?.health.version
  const locked = greeting?.needsToken
    ? 'Read-only. Unlock with the ADMIN_TOKEN to see request details and to change things.'
    : 'Read-only: in production the console shows request details and changes things only with an ADMIN_TOKEN.'
  // A page of one version may not understand all that another one says.
  const other =
    version !== firstVersion && `The gateway is now version ${version}: reload this page.`
  const standing = [greeting && !page.isFull && locked, other].filter(Boolean)
  const all = [...standing.map((text) => ({ key: text, text })), ...said]
  return all.map(
    (one) => html`<p key=${one.key} class="notice ${one.tone ?? 'warn'}">${one.text}</p>`,
  )
}

function pause() {
  page.isPaused = !page.isPaused
  if (!page.isPaused) connect()
}

function changeTheme() {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length]
  localStorage.setItem(themeKey, theme)
}

const dialog = () => document.getElementById('token-dialog')

function unlock() {
  if (storedToken() === '') return dialog().showModal()
  keepToken('')
  connect()
}

function tokenDialog() {
  const forget = ({ currentTarget }) => currentTarget.querySelector('form').reset()
  // Cancel is not a submit button: Enter in the field presses the first of those.
  return html`<dialog id="token-dialog" class="box" aria-labelledby="token-title" onClose=${forget}>
    <form method="dialog" class="stack" onSubmit=${takeToken}>
      <h2 id="token-title">Unlock with the ADMIN_TOKEN</h2>
      <p class="dim">Shows request details and allows changes. Kept in this tab until it is closed.</p>
      <label>ADMIN_TOKEN<input name="token" type="password" autocomplete="off" required /></label>
      <div class="row flow">
        <span class="grow"></span><button type="button" class="quiet" onClick=${() => dialog().close()}>Cancel</button>
        <button type="submit" value="ok">Unlock</button>
      </div>
    </form>
  </dialog>`
}

function takeToken({ target: form }) {
  const token = new FormData(form).get('token').trim()
  // A token with other characters, such as a dash that a chat replaced, does not fit into a header.
  if (!/^[\x21-\x7e]+$/.test(token))
    return say('An ADMIN_TOKEN has visible ASCII characters only.', 'bad')
  keepToken(token)
  connect()
}

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
