import { act } from './connection.js'
import { countdown } from './controls.js'
import { count, many, signedPercent } from './format.js'
import { html, Panel, page, say, sayError, Table } from './page.js'

const columns = [
  { key: 'pair', label: 'Pair', of: ({ pair }) => pair },
  {
    key: 'amount',
    label: 'Amount',
    kind: 'number minor',
    of: ({ amount }) => Number(amount),
  },
  {
    key: 'toAmount',
    label: 'To amount',
    kind: 'number minor',
    of: ({ toAmount }) => Number(toAmount),
  },
  { key: 'left', label: 'Life left', of: ({ endsAt }) => endsAt },
  { key: 'hits', label: 'Hits', kind: 'number', of: ({ hits }) => hits },
  { key: 'drift', label: 'Drift', kind: 'number minor', of: ({ drift }) => drift ?? -1 },
]
const driftTitle = 'How far the price moved since the quote before this one'
/** The gateway sends at most this many quotes. */
const maxListed = 80

let filter = ''
let sorting = {}

export function view() {
  const { quotes } = page.shown
  const live = withKeys(quotes).filter(({ endsAt }) => endsAt > page.now)
  const shown = live.filter(({ pair, amount }) =>
    `${pair} ${amount}`.toLowerCase().includes(filter),
  )
  const all =
    quotes.length < maxListed
      ? `${live.length} live`
      : `the ${live.length} most requested`
  const shownCount = shown.length === live.length ? all : `${shown.length} of ${all}`
  const heads = [...columns.map(heading), page.isFull && html`<td></td>`]
  const empty = live.length === 0 && `Nothing is cached. ${whyNothing()}`
  const dropAll = html`<button type="button" class="quiet" data-role="drop-all"
    onClick=${() => drop('drop-all', {}).catch(sayError)}>Drop all</button>`
  const tools = html`
    <input type="search" data-role="filter" placeholder="Filter by pair or amount"
      aria-label="Filter the quotes by pair or amount"
      onInput=${({ target }) => (filter = target.value.trim().toLowerCase())} />
    ${page.isFull && live.length > 0 && dropAll}`
  return html`<${Panel} id="quotes" title="Quotes in the cache" kind="wide" count=${shownCount} tools=${tools}>
    <${Table} of="quotes" kind="tall" heads=${heads} empty=${empty}>
      <tbody>${shown.sort(compare).map(row)}</tbody>
    <//>
  <//>`
}

function whyNothing() {
  const { upstreams, outages } = page.shown
  const outage = outages.find(({ failing = [] }) => failing.includes('quotes'))
  if (outage !== undefined) return `${outage.text}.`
  const swap = upstreams.find(({ name }) => name === 'swap')
  const { notKept } = swap?.traffic.find(({ traffic }) => traffic === 'quotes') ?? {}
  return notKept
    ? `The provider's last ${many(notKept.answers, 'answer')} could not be kept (${notKept.reason}).`
    : 'A quote appears here as soon as a caller requests one.'
}

function withKeys(quotes) {
  // A provider may give one quote to several callers, and readers see no ids: only a count tells such rows apart.
  const times = new Map()
  return quotes.map((quote) => {
    const nth = (times.get(quote.id) ?? 0) + 1
    times.set(quote.id, nth)
    return { ...quote, endsAt: page.shownAt + quote.leftMs, key: `${nth} ${quote.id}` }
  })
}

function heading(column) {
  const { key, label, kind } = column
  return html`<th scope="col" class=${kind} data-column=${key} title=${key === 'drift' && driftTitle}
    aria-sort=${sorting.column === column ? sorting.direction : undefined}
    ><button type="button" class="bare" onClick=${() => sortBy(column)}>${label}</button></th>`
}

function sortBy(column) {
  const [first, other] = column.kind
    ? ['descending', 'ascending']
    : ['ascending', 'descending']
  if (sorting.column !== column) sorting = { column, direction: first }
  else sorting = sorting.direction === first ? { column, direction: other } : {}
}

function compare(left, right) {
  const { column, direction } = sorting
  if (column === undefined) return 0
  const [a, b] = [column.of(left), column.of(right)]
  const ascending = typeof a === 'string' ? a.localeCompare(b) : a - b
  return direction === 'ascending' ? ascending : -ascending
}

function row(quote) {
  const { key, id, pair, amount, toAmount, toAsset, hits, drift } = quote
  const name = `Drop ${pair} ${amount}`
  const dropButton = html`<button type="button" class="quiet copy stop drop" aria-label=${name} title=${name}
    onClick=${() => drop('drop', { id }).catch(sayError)}>×</button>`
  return html`<tr key=${key} data-pair=${pair}>
    <td>
      <span class="pair">${pair}</span>
      <small class="narrow dim">${amount} → ${toAmount} ${toAsset}</small>
    </td>
    <td class="number minor">${amount}</td>
    <td class="number minor">${toAmount} ${toAsset}</td>
    <td>${countdown(quote)}</td>
    <td class="number">${count(hits)}</td>
    <td class="number minor ${drift > 0 ? 'good' : drift < 0 ? 'bad' : ''}">
      ${signedPercent(drift)}</td>
    ${page.isFull && html`<td class="number">${dropButton}</td>`}
  </tr>`
}

async function drop(action, what) {
  const { dropped } = await act(action, what)
  page.shown.quotes = page.shown.quotes.filter(
    ({ id }) => action === 'drop' && id !== what.id,
  )
  say(dropped === 1 ? 'One quote was dropped.' : `${dropped} quotes were dropped.`)
}
