import { element } from './dom.js'

/**
 * Lets a row open: by a click anywhere on it, or by its button with the keyboard; Escape closes it again. Its details are
 * made when they are first wanted.
 */
export function createOpenRow({ row, button, columns, describe }) {
  let detail

  function close() {
    detail?.remove()
    detail = undefined
    button.setAttribute('aria-expanded', 'false')
  }

  function closeOnEscape(event) {
    if (event.key !== 'Escape' || detail === undefined) return
    button.focus()
    close()
  }

  function open() {
    detail = element('tr', { class: 'detail' }, element('td', { colspan: String(columns) }, describe()))
    detail.addEventListener('keydown', closeOnEscape)
    detail.hidden = row.hidden
    row.after(detail)
    button.setAttribute('aria-expanded', 'true')
  }

  button.setAttribute('aria-expanded', 'false')
  row.classList.add('opens')
  row.addEventListener('keydown', closeOnEscape)
  // The click of a button comes here too, and so does its Enter.
  row.addEventListener('click', () => {
    if (isSelecting(row)) return
    if (detail === undefined) open()
    else close()
  })
  return {
    get isOpen() {
      return detail !== undefined
    },
    set hidden(hidden) {
      row.hidden = hidden
      if (detail !== undefined) detail.hidden = hidden
    },
    remove() {
      detail?.remove()
      row.remove()
    },
  }
}

/** Rows that come above an open one must not push it away from its reader. */
export function holdOpenRow(scroller, change) {
  const opened = scroller.querySelector('[aria-expanded="true"]')
  const top = opened?.getBoundingClientRect().top
  change()
  if (opened?.isConnected) scroller.scrollTop += opened.getBoundingClientRect().top - top
}

/** Whether the mouse has just marked a text in this row. */
function isSelecting(row) {
  const selection = getSelection()
  return selection !== null && !selection.isCollapsed && row.contains(selection.anchorNode)
}
