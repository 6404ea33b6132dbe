import { element, setText } from './dom.js'
import { count, milliseconds, reach } from './format.js'
import { createSlots } from './history.js'
import { createSparkline } from './sparkline.js'

/** Right after the start, a line is not drawn over more than this many slots. */
const fewestPoints = 60
const dayMs = 86_400_000
const marked = new Set(['upstream', 'pairs', 'store'])
const ranges = [
  { id: 'seconds', label: '15 min' },
  { id: 'minutes', label: '24 h' },
]

/** For each tile: what is drawn of a slot, and the text about all slots of the range. */
const tiles = [
  {
    id: 'requests',
    label: 'Requests',
    draw: (slots) => slots.of('requests'),
    read: ({ slots, period, recent: { requestsPerSecond } }) => ({
      value: requestsPerSecond < 10 ? String(requestsPerSecond) : count(Math.round(requestsPerSecond)),
      unit: '/s',
      more: `${count(slots.sum('requests'))} in the ${period}`,
    }),
  },
  {
    id: 'hits',
    label: 'Cache hits',
    highest: 1,
    draw(slots) {
      const hits = slots.of('hits')
      return slots.of('quotes').map((quotes, index) => (quotes > 0 ? hits[index] / quotes : null))
    },
    read({ slots, period }) {
      const quotes = slots.sum('quotes')
      const hits = slots.sum('hits')
      if (quotes === 0) return { value: '–', unit: '', more: `no quote in the ${period}` }
      return {
        value: ((hits / quotes) * 100).toFixed(0),
        unit: '%',
        more: `${count(hits)} of ${count(quotes)}, ${period}`,
      }
    },
  },
  {
    id: 'p95',
    label: 'p95 of answers',
    draw: (slots) => slots.of('p95Ms'),
    read: ({ recent }) => ({
      value: milliseconds(recent.p95Ms),
      unit: recent.p95Ms === null ? '' : 'ms',
      more: reach(recent.seconds),
    }),
  },
  {
    id: 'errors',
    label: 'Upstream errors',
    draw: (slots) => slots.of('errors'),
    read({ slots, period }) {
      const errors = slots.sum('errors')
      return { value: count(errors), unit: '', more: period, tone: errors > 0 ? 'bad' : '' }
    },
  },
  {
    id: 'refused',
    label: 'Orders refused',
    draw: (slots) => slots.of('refused'),
    read({ slots, period, refusedTotal }) {
      const refused = slots.sum('refused')
      return {
        value: count(refused),
        unit: '',
        more: `${period}; ${count(refusedTotal)} since the start`,
        tone: refused > 0 ? 'warn' : '',
      }
    },
  },
  {
    id: 'in-flight',
    label: 'In flight',
    draw: (slots) => slots.of('inFlight'),
    read: ({ slots, period, inFlight }) => ({
      value: count(inFlight),
      unit: '',
      more: `peak ${count(slots.peak('inFlight'))}, ${period}`,
    }),
  },
]

export function createTiles() {
  const section = document.getElementById('tiles')
  const rings = {}
  let range = 'seconds'
  let latest
  /** Outages of the past by their ids, and those that go on. */
  const outages = new Map()
  const drawn = tiles.map((tile) => {
    const number = element('span')
    const unit = element('small')
    const more = element('div', { class: 'more' })
    const spark = createSparkline(tile.label)
    const node = element(
      'div',
      { class: 'tile', 'data-tile': tile.id },
      element(
        'div',
        { class: 'tile-text' },
        element('div', { class: 'label', text: tile.label }),
        element('div', { class: 'value' }, number, unit),
        more,
      ),
      spark.node,
    )
    section.append(node)
    return { tile, number, unit, more, spark, node }
  })

  const choices = ranges.map(({ id, label }) => {
    const input = element('input', { type: 'radio', name: 'range', value: id, checked: id === range })
    input.addEventListener('change', () => {
      range = id
      if (latest !== undefined) show(latest)
    })
    return element('label', {}, input, element('span', { text: label }))
  })
  document.getElementById('range').append(...choices)

  function noteOutages({ outages: current, health: { now } }) {
    for (const [id, outage] of outages) {
      if (outage.until === null && !current.some((one) => one.id === id))
        outages.set(id, { ...outage, until: now })
      else if (outage.until !== null && now - outage.until > dayMs) outages.delete(id)
    }
    for (const outage of current) outages.set(outage.id, outage)
  }

  /** Other troubles may last for days, and would mark all. */
  function marksOf(slots, now) {
    const placeOf = (at) => slots.length - 1 - (now - at) / slots.slotMs
    return (
      [...outages.values()]
        .filter(({ what }) => marked.has(what))
        // A slot is drawn at its end, so that what ended within the first one, or while it was closed, comes before it.
        .filter(({ until }) => until === null || placeOf(until) > -2)
        .map(({ since, until }) => [placeOf(since), placeOf(until ?? now)])
    )
  }

  function show(frame) {
    latest = frame
    const slots = rings[range]
    const period = periodOf(slots, frame.health.uptimeMs)
    const { refusedTotal, recent, health } = frame
    const state = { slots, period, recent, refusedTotal, inFlight: health.inFlight }
    const marks = marksOf(slots, health.now)
    for (const { tile, number, unit, more, spark, node } of drawn) {
      const said = tile.read(state)
      setText(number, said.value)
      setText(unit, said.unit)
      setText(more, said.more)
      more.title = said.more
      node.className = `tile ${said.tone ?? ''}`
      spark.draw(tile.draw(slots), {
        points: Math.max(fewestPoints, slots.length),
        highest: tile.highest,
        outages: marks,
        said: `${said.value}${said.unit}, ${said.more}`,
      })
    }
  }

  return {
    hello(frame) {
      rings.seconds = createSlots(frame.history.seconds)
      rings.minutes = createSlots(frame.history.minutes)
      outages.clear()
      for (const outage of frame.history.outages) outages.set(outage.id, outage)
      noteOutages(frame)
      show(frame)
    },
    tick(frame) {
      rings.seconds.take(frame.seconds)
      rings.minutes.take(frame.minutes)
      noteOutages(frame)
      show(frame)
    },
  }
}

/** The first slot of a range is rarely whole. */
function periodOf(slots, uptimeMs) {
  return reach(Math.min((slots.length * slots.slotMs) / 1000, uptimeMs / 1000))
}
