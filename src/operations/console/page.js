import { html, render } from './htm.js'
import { moveBetweenRows } from './tab-stops.js'

export { html }

const invisible =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g
const shownProps = ['title', 'aria-label', 'children']
const saidForMs = 6_000

/** Each panel keeps its own state. */
export const page = {
  /** Whether requests may be seen, and things be changed. */
  isFull: false,
  isPaused: false,
  /** The time by this page's clock, which stops while the page is paused. */
  now: performance.now(),
  /** The newest and the shown status, and when each came. */
  latest: undefined,
  latestAt: 0,
  shown: undefined,
  shownAt: 0,
  /** When `latest` was last confirmed. */
  heardAt: 0,
}

/** How long the newest status has been true: an unchanged one is not sent again. */
export const ageMs = () => page.heardAt - page.latestAt

export const leftOf = (ms) => Math.max(0, ms - ageMs())

/** For changes that neither a status nor a user's action causes at once. */
export const redraw = () => dispatchEvent(new Event('redraw'))

/** Passing notices. */
export const said = new Set()

export function say(text, tone = 'warn') {
  const one = { key: performance.now(), text, tone }
  said.add(one)
  redraw()
  setTimeout(() => {
    said.delete(one)
    redraw()
  }, saidForMs)
}

export const sayError = ({ message }) => say(message, 'bad')

/** Callers and the provider choose names and ids: characters that reverse or hide others are shown by number. */
export function visible(text) {
  return text.replace(
    invisible,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Changes an element to `view`. Text is never parsed as markup, and all of it is visible. */
export function draw(root, view) {
  render(madeVisible(view), root)
}

function madeVisible(node) {
  if (typeof node === 'string') return visible(node)
  if (Array.isArray(node)) return node.map(madeVisible)
  const { type, key, props = {} } = node ?? {}
  // Components have no state.
  if (typeof type === 'function') return Object.assign(madeVisible(type(props)), { key })
  for (const name of shownProps) if (props[name]) props[name] = madeVisible(props[name])
  return node
}

/** `tools` stand right of the heading. */
export function Panel({ id, title, count, kind = '', tools, children }) {
  return html`<section class="panel box ${kind}" id=${id} aria-labelledby="${id}-title" tabindex="-1">
    <div class="panel-head flow">
      <h2 id="${id}-title">${title}</h2>
      <span class="dim" data-role="count">${count}</span>
      ${tools && html`<span class="grow"></span>${tools}`}
    </div>
    ${children}
  </section>`
}

/** A scrolling area must be reachable by keyboard, even without anything to focus. */
export function Scroller({ of, kind = '', children }) {
  return html`<div class="scroll ${kind}" tabindex="0" role="group" aria-labelledby="${of}-title">${children}</div>`
}

/** Each of `heads` is a label, or a label with classes: `label, classes`. `empty`: the text without rows. */
export function Table({ of, kind, heads, empty, children }) {
  const cells = heads.map((head) => {
    if (typeof head !== 'string') return head
    const [label, classes] = head.split(', ')
    return html`<th scope="col" class=${classes}>${label}</th>`
  })
  return html`<${Scroller} of=${of} kind=${kind}>
    <table class=${of} onKeyDown=${moveBetweenRows}><thead><tr>${cells}</tr></thead>${children}</table>
    ${empty && html`<p class="dim empty" data-role="empty">${empty}</p>`}
  <//>`
}

/** Values may be elements. */
export function facts(pairs) {
  const known = pairs.filter(
    ([, value]) => value !== '' && value !== null && value !== undefined,
  )
  return html`<dl class="facts">${known.map(([name, value]) => html`<dt class="dim">${name}</dt><dd>${value}</dd>`)}</dl>`
}
