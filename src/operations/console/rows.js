import { html, redraw } from './page.js'

const opened = new WeakSet()

export const isOpen = (item) => opened.has(item)

/**
 * A row that opens: by a click anywhere on it, or by its button with the keyboard; Escape closes it again. `item` is what
 * it shows.
 */
export function openingRow(item, { columns, cells, describe, attributes }) {
  const key = item.number
  const onKeyDown = ({ key: pressed, currentTarget }) => {
    if (pressed !== 'Escape' || !isOpen(item)) return
    const row = currentTarget.matches('.detail')
      ? currentTarget.previousElementSibling
      : currentTarget
    row.querySelector('.open').focus()
    toggle(item)
    redraw()
  }
  // The click of a button comes here too, and so does its Enter.
  const onClick = ({ currentTarget }) => isSelecting(currentTarget) || toggle(item)
  return [
    html`<tr key=${key} class="opens" ...${attributes} onKeyDown=${onKeyDown} onClick=${onClick}>${cells}</tr>`,
    isOpen(item) &&
      html`<tr key="${key} open" class="detail" onKeyDown=${onKeyDown}>
        <td colspan=${columns}>${describe()}</td>
      </tr>`,
  ]
}

export function openButton(item, title, ...content) {
  return html`<button type="button" class="open bare cut" title=${title}
    aria-expanded=${isOpen(item)}>${content}</button>`
}

const toggle = (item) => opened.delete(item) || opened.add(item)

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
