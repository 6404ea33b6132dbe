import { element, part, setText } from './dom.js'

/** The settings in effect, and where each comes from. */
export function createSettings() {
  const panel = document.getElementById('settings')
  const body = panel.querySelector('tbody')
  const filter = part(panel, 'filter')
  const changed = part(panel, 'changed')
  let settings = []
  filter.addEventListener('input', show)
  changed.addEventListener('change', show)

  function show() {
    const wanted = filter.value.trim().toLowerCase()
    const shown = settings.filter(({ name, value, meaning, source }) => {
      if (changed.checked && source === 'default') return false
      return `${name} ${value} ${meaning}`.toLowerCase().includes(wanted)
    })
    setText(
      part(panel, 'count'),
      `${settings.filter(({ source }) => source === 'environment').length} of ${settings.length} set`,
    )
    body.replaceChildren(...shown.map(rowOf))
  }

  return {
    hello(frame) {
      settings = frame.settings
      show()
    },
    tick() {},
  }
}

function rowOf({ name, value, source, meaning }) {
  const isSet = source === 'environment'
  return element(
    'tr',
    {},
    element('th', { scope: 'row', class: 'mono', text: name }),
    element('td', { class: `mono ${isSet ? 'set' : ''}`, text: value === '' ? 'none' : value }),
    element('td', { class: 'dim', text: source }),
    element('td', { class: 'minor', text: meaning }),
  )
}
