import { element, setText } from './dom.js'

const saidForMs = 1_500
const tailLength = 8

/** The end of an id, since ids of one maker often begin alike. */
export function tailOf(id) {
  return id.length <= tailLength + 2 ? id : `…${id.slice(-tailLength)}`
}

export function copyButton(text, label, { name, shown } = {}) {
  const button = element('button', { type: 'button', class: 'quiet copy', text: label, 'aria-label': name })
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text)
      setText(button, 'Copied')
    } catch {
      // Without HTTPS a browser has no clipboard, except on loopback.
      if (shown !== undefined) {
        // It may show the end alone.
        setText(shown, text)
        getSelection()?.selectAllChildren(shown)
      }
      setText(button, shown === undefined ? 'Select it below' : 'Selected: copy it')
    }
    setTimeout(() => setText(button, label), saidForMs)
  })
  return button
}

/** An id with a button that copies the whole of it. `text`: what is shown of it. */
export function copyableId(id, { what, text = id }) {
  if (id === null || id === '') return undefined
  const shown = element('span', { class: 'mono', title: id, text })
  const name = `Copy the ${what} ${id}`
  return element('span', { class: 'id' }, shown, ' ', copyButton(id, 'Copy', { name, shown }))
}
