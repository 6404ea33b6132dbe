import { html, redraw } from './page.js'

/** Open rows, by table and number, which stay until they are closed. */
const opened = new Map()

/** The time is in the key, because numbers begin again when the gateway restarts. */
const keyOf = (table, { number, at }) => `${table} ${at} ${number}`

const isOpen = (table, item) => opened.has(keyOf(table, item))

/** Called when requests may no longer be seen. */
export const closeRows = () => opened.clear()

/** The items of a table and its open rows, newest first. */
export function withOpen(table, items) {
  const known = new Set(items.map((item) => keyOf(table, item)))
  const older = [...opened].filter(([key, { of }]) => of === table && !known.has(key))
  return [...items, ...older.map(([, { item }]) => item)].sort(
    (left, right) => right.at - left.at || right.number - left.number,
  )
}

function toggle(table, item) {
  const key = keyOf(table, item)
  if (!opened.delete(key)) opened.set(key, { of: table, item })
}

/** A row that opens by a click or its button, and closes by Escape. `item`: what the row shows. */
export function openingRow(table, item, { columns, cells, describe, attributes }) {
  const key = keyOf(table, item)
  const onKeyDown = ({ key: pressed, currentTarget }) => {
    if (pressed !== 'Escape' || !isOpen(table, item)) return
    const row = currentTarget.matches('.detail')
      ? currentTarget.previousElementSibling
      : currentTarget
    row.querySelector('.open').focus()
    toggle(table, item)
    redraw()
  }
  // The button's click and Enter come here, too.
  const onClick = ({ currentTarget }) => isSelecting(currentTarget) || toggle(table, item)
  return [
    html`<tr key=${key} class="opens" ...${attributes} onKeyDown=${onKeyDown} onClick=${onClick}>${cells}</tr>`,
    isOpen(table, item) &&
      html`<tr key="${key} open" class="detail" onKeyDown=${onKeyDown}>
        <td colspan=${columns}>${describe()}</td>
      </tr>`,
  ]
}

export function openButton(table, item, title, ...content) {
  return html`<button type="button" class="open stop bare cut" title=${title}
    aria-expanded=${isOpen(table, item)}>${content}</button>`
}

/** New rows must not push an open one away from its reader. */
export function holdOpenRows(change) {
  const held = [...document.querySelectorAll('.scroll')].flatMap((scroller) => {
    const button = scroller.querySelector('[aria-expanded="true"]')
    return button === null
      ? []
      : [{ scroller, button, top: button.getBoundingClientRect().top }]
  })
  change()
  for (const { scroller, button, top } of held)
    if (button.isConnected) scroller.scrollTop += button.getBoundingClientRect().top - top
}

function isSelecting(row) {
  return getSelection()?.isCollapsed === false && row.contains(getSelection().anchorNode)
}
