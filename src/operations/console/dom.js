const invisible =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g

/** Clients and the provider choose names and ids: a character that reverses or hides what follows is shown by its number. */
export function visible(text) {
  return String(text).replace(invisible, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Builds an element. Children are elements or text: text is never parsed as markup. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue
    if (key === 'on')
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener)
    else if (key === 'text') made.textContent = visible(value)
    else if (value === true) made.setAttribute(key, '')
    else made.setAttribute(key, key === 'title' || key === 'aria-label' ? visible(value) : value)
  }
  const wanted = children.filter((child) => child !== undefined && child !== null)
  made.append(...wanted.map((child) => (child instanceof Node ? child : visible(child))))
  return made
}

/** The part of a panel with this `data-role`. */
export function part(panel, role) {
  const found = panel.querySelector(`[data-role="${role}"]`)
  if (found === null) throw new Error(`the page has no ${role} here`)
  return found
}

/** Sets a text only if it changed, so that a screen reader does not announce it again. */
export function setText(node, text) {
  const shown = visible(text)
  if (node.textContent !== shown) node.textContent = shown
}

/** A list of names and values; a value may be an element. */
export function facts(pairs) {
  const list = element('dl', { class: 'facts' })
  for (const [name, value] of pairs) {
    if (value === '' || value === null || value === undefined) continue
    list.append(
      element('dt', { text: name }),
      element('dd', {}, value instanceof Node ? value : String(value)),
    )
  }
  return list
}
