import { html, page, visible } from './page.js'

const saidForMs = 1_500
const tailLength = 8

/** The end of an id, because ids of one maker often begin alike. */
export function tailOf(id) {
  return id.length <= tailLength + 2 ? id : `…${id.slice(-tailLength)}`
}

/** `name`: for screen readers. `isBeside`: the text, or its end, stands before the button. */
export function copyButton(text, label, { name, isBeside = false } = {}) {
  async function copy({ currentTarget: button }) {
    // This text node is drawn again only if the button's description changes.
    const said = button.firstChild
    try {
      await navigator.clipboard.writeText(text)
      said.data = 'Copied'
    } catch {
      // Without HTTPS a browser has a clipboard only on loopback.
      said.data = isBeside ? 'Selected: copy it' : 'Select it below'
      if (isBeside) {
        button.previousElementSibling.firstChild.data = visible(text)
        getSelection()?.selectAllChildren(button.previousElementSibling)
      }
    }
    setTimeout(() => {
      said.data = label
    }, saidForMs)
  }
  return html`<button type="button" class="quiet copy" aria-label=${name} onClick=${copy}>${label}</button>`
}

/** `text`: the shown part of the id. */
export function copyableId(id, { what, text = id }) {
  if (!id) return undefined
  const button = copyButton(id, 'Copy', {
    name: `Copy the ${what} ${id}`,
    isBeside: true,
  })
  return html`<span class="id"><span class="mono" title=${id}>${text}</span> ${button}</span>`
}

/** `endsAt` is by this page's clock. */
export function countdown({ endsAt, lifeMs }) {
  const leftMs = Math.max(0, endsAt - page.now)
  const share = Math.min(1, leftMs / lifeMs) || 0
  const kind = share < 0.15 ? 'bad' : share < 0.4 ? 'warn' : 'good'
  const style = { transform: `scaleX(${share.toFixed(4)})` }
  return html`<div class="life">
    <div class="track" aria-hidden="true"><div class="fill ${kind}" style=${style}></div></div>
    <span class="left">${(leftMs / 1000).toFixed(1)} s</span>
  </div>`
}
