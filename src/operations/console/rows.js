import { html, redraw } from './page.js'

/** What is open, by its table and its number: it stays there until it is closed, however old it gets. */
const opened = new Map()

/** Numbers begin again when the gateway restarts. */
const keyOf = (table, { number, at }) => `${table} ${at} ${number}`

const isOpen = (table, item) => opened.has(keyOf(table, item))

/** Of requests that may no longer be seen, none stays open. */
export const closeRows = () => opened.clear()

/** The items of a table and those that are open in it, the newest first. */
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

/**
 * A row that opens: by a click anywhere on it, or by its button with the keyboard; Escape closes it again. `item` is what
 * it shows.
 */
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
  // The click of a button comes here too, and so does its Enter.
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

/** Rows that come above an open one must not push it away from its reader. */
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
