/** Builds an element. Children are elements or text: text is never parsed as markup. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue
    if (key === 'on')
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener)
    else if (key === 'text') made.textContent = value
    else if (value === true) made.setAttribute(key, '')
    else made.setAttribute(key, value)
  }
  made.append(...children.filter((child) => child !== undefined && child !== null))
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
  if (node.textContent !== text) node.textContent = text
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
