import { count, milliseconds, reach } from './format.js'
import { html, page } from './page.js'

/** The axis has at least this many slots, so that a short line fills only its right end. */
const fewestPoints = 60
/** Other outages may last for days, and would mark everything. */
const marked = new Set(['upstream', 'failing', 'no-quotes', 'pairs', 'store'])
const width = 120
const height = 32

export function view() {
  const { recent, ordersRefused, uptimeMs, inFlight, sparklines: of } = page.shown
  const { requestsPerSecond } = recent
  const sum = (name) => of[name].reduce((total, value) => total + value, 0)
  const [quotes, hits, errors, refused] = ['quotes', 'hits', 'errors', 'refused'].map(sum)
  const hitShares = of.quotes.map((asked, index) =>
    asked > 0 ? of.hits[index] / asked : null,
  )
  // The last slot is rarely whole.
  const period = reach(Math.min(of.requests.length * of.slotMs, uptimeMs) / 1000)
  return html`
    <${Tile} id="requests" label="Requests" line=${of.requests} unit="/s"
      value=${requestsPerSecond < 10 ? requestsPerSecond : count(Math.round(requestsPerSecond))}
      more="${count(sum('requests'))} in the ${period}" />
    <${Tile} id="hits" label="Cache hits" line=${hitShares} highest=${1} unit=${quotes > 0 && '%'}
      value=${quotes > 0 ? ((hits / quotes) * 100).toFixed(0) : '–'}
      more=${quotes > 0 ? `${count(hits)} of ${count(quotes)}, ${period}` : `no quote in the ${period}`} />
    <${Tile} id="p95" label="p95 of answers" line=${of.p95Ms} unit=${recent.p95Ms !== null && 'ms'}
      value=${milliseconds(recent.p95Ms)} more=${reach(recent.seconds)} />
    <${Tile} id="errors" label="Upstream errors" line=${of.errors} tone=${errors > 0 && 'bad'}
      value=${count(errors)} more=${period} />
    <${Tile} id="refused" label="Orders refused" line=${of.refused} tone=${refused > 0 && 'warn'}
      value=${count(refused)} more="${period}; ${count(ordersRefused)} since the start" />
    <${Tile} id="in-flight" label="In flight" line=${of.inFlight}
      value=${count(inFlight)} more="peak ${count(Math.max(0, ...of.inFlight))}, ${period}" />`
}

function Tile({ id, label, line, highest, value, unit, more, tone }) {
  return html`<div class="tile box ${tone || ''}" data-tile=${id}>
    <div class="tile-text">
      <div class="dim">${label}</div>
      <div class="value"><span>${value}</span><small>${unit}</small></div>
      <div class="dim more cut" title=${more}>${more}</div>
    </div>
    ${sparkline(line, highest, `${label}: ${value}${unit || ''}, ${more}`)}
  </div>`
}

/** Values as a line, with outages marked; null is a slot without a value. */
function sparkline(values, highest = 0, said) {
  const points = Math.max(fewestPoints, values.length)
  const top = Math.max(highest, ...values, 1e-9)
  const xOf = (index) => ((index + points - values.length) / (points - 1)) * width
  const yOf = (value) => height - 1 - (value / top) * (height - 4)
  const known = values.flatMap((value, index) =>
    value === null ? [] : [[xOf(index).toFixed(1), yOf(value).toFixed(1)]],
  )
  const line = known
    .map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${x} ${y}`)
    .join('')
  const area = line && `${line}L${known.at(-1)[0]} ${height}L${known[0][0]} ${height}Z`
  return html`<svg class="spark" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img"
    aria-label=${said}>
    <path class="outage-mark" d=${marks(values.length, xOf)} />
    <path class="area" d=${area} />
    <path class="line" d=${line} />
  </svg>`
}

function marks(length, xOf) {
  const { now, sparklines, outages, pastOutages } = page.shown
  const current = outages.map((outage) => ({ ...outage, until: now }))
  const placeOf = (at) => length - 1 - (now - at) / sparklines.slotMs
  const bars = [...pastOutages, ...current]
    .filter(({ what }) => marked.has(what))
    // A slot is drawn at its end: an outage within the first slot, or while that slot closed, lies before it.
    .filter(({ until }) => placeOf(until) > -2)
    .map(({ since, until }) => bar(xOf(placeOf(since)), xOf(placeOf(until))))
  return bars.join('')
}

/** A bar is wide enough to be seen. */
function bar(from, to) {
  const left = Math.max(0, from)
  const right = Math.min(width, Math.max(to, from + 1))
  return right <= left
    ? ''
    : `M${left.toFixed(1)} 0H${right.toFixed(1)}V${height}H${left.toFixed(1)}Z`
}
