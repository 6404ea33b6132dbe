import { ask, keepToken, receive, storedToken, unansweredMs } from './connection.js'
import { clockTime, span } from './format.js'
import * as holds from './holds.js'
import * as orders from './orders.js'
import * as outages from './outages.js'
import { brand, health, savings } from './overview.js'
import { draw, html, page, redraw, said, say } from './page.js'
import * as panels from './panels.js'
import * as quotes from './quotes.js'
import * as requests from './requests.js'
import { closeRows, holdOpenRows } from './rows.js'
import * as sandbox from './sandbox.js'
import { holdTabStops } from './tab-stops.js'
import * as tiles from './tiles.js'
import * as tryIt from './try-it.js'

const silentAfterMs = 5_000
const countDownEveryMs = 250
const themeKey = 'quotegate-theme'
const themes = ['auto', 'dark', 'light']

let firstVersion
let theme = localStorage.getItem(themeKey) ?? 'auto'

receive({
  onStatus(status) {
    try {
      take(status)
      holdOpenRows(drawPage)
    } catch (error) {
      // A defect of the page must be seen, and must not end the polling.
      page.latest = undefined
      reportError(error)
    }
  },
  onUnchanged() {
    page.heardAt = performance.now()
  },
  onRefused() {
    keepToken('')
    say('That is not the ADMIN_TOKEN.', 'bad')
    ask()
  },
})

function take(status) {
  firstVersion ??= status.version
  const isOther = page.latest === undefined || status.uptimeMs < page.latest.uptimeMs
  if (isOther) void panels.readSettings()
  const wasFull = page.isFull
  page.isFull = status.access === 'full'
  if (wasFull && !page.isFull) closeRows()
  page.latest = status
  page.latestAt = performance.now()
  page.heardAt = page.latestAt
  // A page without full rights must not show data from before.
  if (!page.isPaused || wasFull !== page.isFull) show()
}

function show() {
  page.shown = page.latest
  page.shownAt = page.latestAt
}

// A user's action may change the page. These events come here after the element's own handlers.
for (const name of ['redraw', 'click', 'input', 'change'])
  addEventListener(name, drawPage)
redraw()
setInterval(() => page.isPaused || drawPage(), countDownEveryMs)

function drawPage() {
  if (!page.isPaused) page.now = performance.now()
  // The system's theme until the user chooses one.
  document.documentElement.style.colorScheme = theme === 'auto' ? '' : theme
  document.body.classList.toggle('silent', isSilent())
  draw(document.body, view())
  holdTabStops()
}

function isSilent() {
  return unansweredMs() > silentAfterMs
}

/** The controls are right even if the status cannot be understood. */
function view() {
  const isKnown = page.latest !== undefined
  return html`<a class="skip" href=${page.isFull ? '#requests' : '#quotes'}>Skip to the tables</a>
    <header class="bar flow">
      <section id="holds" class="holds" aria-label="What is held" role="alert">${isKnown && holds.banners()}</section>
      <div class="brand flow">
        <img src="icon.svg" alt="" width="22" height="22" /><h1>quotegate</h1>${isKnown && brand()}
      </div>
      <div id="controls" class="controls flow">${controls()}</div>
    </header>
    <section id="outages" class="outages stack" aria-label="What is wrong now" aria-live="polite">
      ${isSilent() && silence()}${isKnown && outages.view()}</section>
    <div id="notices" class="notices" aria-live="polite">${notices()}</div>
    <main>${isKnown && content()}</main>
    ${tokenDialog()}`
}

function silence() {
  const heardAt = page.latest && page.latest.now + page.heardAt - page.latestAt
  const seen = heardAt && ` What you see is of ${clockTime(heardAt)}.`
  const forMs = heardAt ? performance.now() - page.heardAt : unansweredMs()
  return html`<p key="silence" class="outage bad" data-outage="silence">
    <strong>No answer from the gateway <span aria-live="off">for ${span(forMs)}</span>.</strong>${seen}
  </p>`
}

function content() {
  return html`<ul id="health" class="health flow" aria-label="Health">${health()}</ul>
    <p id="savings" class="savings flow">${savings()}</p>
    <section id="tiles" class="tiles" aria-label="What happened lately">${tiles.view()}</section>
    <div class="columns">
      <div class="column">${requests.view()}${quotes.view()}</div>
      <div class="column">${panels.upstreams()}${panels.events()}${tryIt.view()}${holds.form()}</div>
    </div>
    ${orders.view()}${sandbox.view()}${panels.settings()}`
}

function stateNow() {
  if (isSilent()) return { state: 'waiting', text: 'no answer', tone: 'bad error' }
  if (page.latest === undefined) return { text: 'connecting' }
  return { state: 'live', text: page.isPaused ? 'paused' : 'live', tone: 'good' }
}

function controls() {
  const { state, text, tone } = stateNow()
  const lock = html`<button id="unlock" type="button" onClick=${unlock}>${page.isFull ? 'Lock' : 'Unlock'}</button>`
  return html`<span id="connection" class="connection dim flow ${tone}" role="status" data-state=${state}>
      ${tone && html`<span class="dot"></span>`}${text}</span>
    ${page.latest?.needsToken && lock}
    <button type="button" aria-pressed=${page.isPaused} onClick=${pause}>${page.isPaused ? 'Resume' : 'Pause'}</button>
    <button type="button" onClick=${changeTheme}>Theme: ${theme}</button>`
}

function notices() {
  const { latest } = page
  const locked = latest?.needsToken
    ? 'Read-only. Unlock with the ADMIN_TOKEN to see request details and to change things.'
    : 'Read-only: in production the console shows request details and changes things only with an ADMIN_TOKEN.'
  // A page may not understand another version's status.
  const other =
    latest &&
    latest.version !== firstVersion &&
    `The gateway is now version ${latest.version}: reload this page.`
  const standing = [latest && !page.isFull && locked, other].filter(Boolean)
  const all = [...standing.map((text) => ({ key: text, text })), ...said]
  return all.map(
    (one) => html`<p key=${one.key} class="notice ${one.tone ?? 'warn'}">${one.text}</p>`,
  )
}

function pause() {
  page.isPaused = !page.isPaused
  if (!page.isPaused) show()
}

function changeTheme() {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length]
  localStorage.setItem(themeKey, theme)
}

const dialog = () => document.getElementById('token-dialog')

function unlock() {
  if (storedToken() === '') return dialog().showModal()
  keepToken('')
  ask()
}

function tokenDialog() {
  const forget = ({ currentTarget }) => currentTarget.querySelector('form').reset()
  // Enter in the field presses the first submit button, which must not be Cancel.
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
  // Other characters, such as a dash that a chat replaced, do not fit into a header.
  if (!/^[\x21-\x7e]+$/.test(token))
    return say('An ADMIN_TOKEN has visible ASCII characters only.', 'bad')
  keepToken(token)
  ask()
}

// A shown tab asks at once.
document.addEventListener('visibilitychange', () => document.hidden || ask())
