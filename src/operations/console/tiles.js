import { element, setText } from './dom.js'
import { count, milliseconds } from './format.js'
import { createSparkline } from './sparkline.js'

const seconds = 60
const sum = (samples, key) => samples.reduce((total, sample) => total + sample[key], 0)
const peak = (samples, key) => samples.reduce((most, sample) => Math.max(most, sample[key]), 0)

/** For each tile: the value that is drawn for a sample, and the text about all samples. */
const tiles = [
  {
    id: 'requests',
    label: 'Requests',
    of: ({ requests }) => requests,
    read: ({ samples }) => ({
      value: count(samples.at(-1)?.requests ?? 0),
      unit: '/s',
      more: `${count(sum(samples, 'requests'))} in 60 s, peak ${count(peak(samples, 'requests'))}/s`,
    }),
  },
  {
    id: 'hits',
    label: 'Cache hits',
    highest: 1,
    of: ({ quotes, hits }) => (quotes === 0 ? null : hits / quotes),
    read({ samples }) {
      const quotes = sum(samples, 'quotes')
      const hits = sum(samples, 'hits')
      if (quotes === 0) return { value: '–', unit: '', more: 'no quote asked for' }
      return {
        value: ((hits / quotes) * 100).toFixed(0),
        unit: '%',
        more: `${count(hits)} of ${count(quotes)} quotes`,
      }
    },
  },
  {
    id: 'p95',
    label: 'p95',
    of: ({ p95Ms }) => p95Ms,
    read: ({ p95Ms, samples }) => ({
      value: milliseconds(p95Ms),
      unit: p95Ms === null ? '' : 'ms',
      more: `last second ${milliseconds(samples.at(-1)?.p95Ms)} ms`,
    }),
  },
  {
    id: 'errors',
    label: 'Upstream errors',
    of: ({ upstreamErrors }) => upstreamErrors,
    read({ samples }) {
      const errors = sum(samples, 'upstreamErrors')
      return { value: count(errors), unit: '', more: 'in 60 s', tone: errors > 0 ? 'bad' : '' }
    },
  },
  {
    id: 'refused',
    label: 'Orders refused',
    of: ({ refused }) => refused,
    read({ samples, refusedTotal }) {
      const refused = sum(samples, 'refused')
      return {
        value: count(refused),
        unit: '',
        more: `in 60 s, ${count(refusedTotal)} in all`,
        tone: refused > 0 ? 'warn' : '',
      }
    },
  },
  {
    id: 'in-flight',
    label: 'In flight',
    of: ({ inFlight }) => inFlight,
    read: ({ samples, inFlight }) => ({
      value: count(inFlight),
      unit: '',
      more: `peak ${count(peak(samples, 'inFlight'))} in 60 s`,
    }),
  },
]

export function createTiles() {
  const section = document.getElementById('tiles')
  let samples = []
  const drawn = tiles.map((tile) => {
    const number = element('span')
    const unit = element('small')
    const more = element('div', { class: 'more' })
    const spark = createSparkline(tile.label, seconds)
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

  function show(frame, p95Ms) {
    const state = { samples, p95Ms, refusedTotal: frame.refusedTotal, inFlight: frame.health.inFlight }
    for (const { tile, number, unit, more, spark, node } of drawn) {
      const said = tile.read(state)
      setText(number, said.value)
      setText(unit, said.unit)
      setText(more, said.more)
      node.className = `tile ${said.tone ?? ''}`
      spark.draw(samples.map(tile.of), {
        highest: tile.highest,
        said: `${said.value}${said.unit}, ${said.more}`,
      })
    }
  }

  return {
    hello(frame) {
      samples = frame.samples
      show(frame, samples.at(-1)?.p95Ms ?? null)
    },
    tick(frame) {
      samples = [...samples, frame.sample].slice(-seconds)
      show(frame, frame.p95Ms)
    },
  }
}
