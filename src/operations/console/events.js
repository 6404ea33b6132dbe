import { element, part, setText } from './dom.js'
import { clockTime } from './format.js'

const maxShown = 200

/** What happened to the gateway, newest first; also while no page was open. */
export function createEvents() {
  const panel = document.getElementById('events')
  const list = panel.querySelector('ol')
  let lastId = 0

  function add({ id, at, tone, text, replaces }) {
    if (id <= lastId) return
    lastId = id
    list.querySelector(`[data-event="${replaces}"]`)?.remove()
    list.prepend(
      element(
        'li',
        { 'data-event': String(id) },
        element('time', { class: 'dim', datetime: new Date(at).toISOString(), text: clockTime(at) }),
        element('span', { class: `dot ${tone}`, 'aria-hidden': 'true' }),
        element('span', { text }),
      ),
    )
    while (list.childElementCount > maxShown) list.lastChild.remove()
  }

  function show(events) {
    for (const event of events) add(event)
    setText(part(panel, 'count'), `the last ${list.childElementCount}`)
  }

  return {
    hello({ history }) {
      list.replaceChildren()
      lastId = 0
      show(history.events)
    },
    tick: ({ events }) => show(events),
  }
}
