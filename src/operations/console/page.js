import { html, render } from './htm.js'
import { moveBetweenRows } from './tab-stops.js'

export { html }

const invisible =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g
const shownProps = ['title', 'aria-label', 'children']
const saidForMs = 6_000

/** The state of the page; each panel keeps its own. */
export const page = {
  /** Whether requests may be seen and things be changed. */
  isFull: false,
  isPaused: false,
  /** The time by this page's clock, which stops while the page is paused. */
  now: performance.now(),
  /** The newest status, and the status that the panels show, each with the time when it came. */
  latest: undefined,
  latestAt: 0,
  shown: undefined,
  shownAt: 0,
  /** When the gateway last confirmed `latest`. */
  heardAt: 0,
}

/** How long the newest status has stayed true: the gateway does not send an unchanged status again. */
export const ageMs = () => page.heardAt - page.latestAt

/** What is left of a time in the newest status. */
export const leftOf = (ms) => Math.max(0, ms - ageMs())

/** For changes that neither the gateway nor a user's action causes at once. */
export const redraw = () => dispatchEvent(new Event('redraw'))

/** Notices that show for a moment. */
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

/**
 * Clients and the provider choose names and ids: a character that reverses or hides the next ones is shown by its
 * number.
 */
export function visible(text) {
  return text.replace(
    invisible,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Changes an element to what `view` describes. Text is never parsed as markup, and all of it is visible. */
export function draw(root, view) {
  render(madeVisible(view), root)
}

function madeVisible(node) {
  if (typeof node === 'string') return visible(node)
  if (Array.isArray(node)) return node.map(madeVisible)
  const { type, key, props = {} } = node ?? {}
  // Components have no state of their own.
  if (typeof type === 'function') return Object.assign(madeVisible(type(props)), { key })
  for (const name of shownProps) if (props[name]) props[name] = madeVisible(props[name])
  return node
}

/** A panel with its heading; `tools` stand at the right of it. */
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

/** A scrolling area must be reachable by keyboard, even if nothing in it takes the focus. */
export function Scroller({ of, kind = '', children }) {
  return html`<div class="scroll ${kind}" tabindex="0" role="group" aria-labelledby="${of}-title">${children}</div>`
}

/**
 * A table. Each of its `heads` is a label, or a label with its classes: `label, classes`. `empty`: the text without
 * rows.
 */
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

/** A list of names and values; a value may be an element. */
export function facts(pairs) {
  const known = pairs.filter(
    ([, value]) => value !== '' && value !== null && value !== undefined,
  )
  return html`<dl class="facts">${known.map(([name, value]) => html`<dt class="dim">${name}</dt><dd>${value}</dd>`)}</dl>`
}
