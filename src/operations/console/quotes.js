import { act } from './api.js'
import { createCountdown } from './countdown.js'
import { element, part, setText } from './dom.js'
import { count, signedPercent } from './format.js'

const columns = [
  { key: 'pair', label: 'Pair', of: ({ pair }) => pair },
  { key: 'amount', label: 'Amount', number: true, minor: true, of: ({ amount }) => Number(amount) },
  { key: 'toAmount', label: 'To amount', number: true, minor: true, of: ({ toAmount }) => Number(toAmount) },
  { key: 'left', label: 'Life left', of: (_quote, row) => row.countdown.leftMs },
  { key: 'hits', label: 'Hits', number: true, of: ({ hits }) => hits },
  {
    key: 'drift',
    label: 'Drift',
    number: true,
    minor: true,
    of: ({ drift }) => drift ?? Number.NEGATIVE_INFINITY,
  },
]

const updateEveryMs = 250
/** The gateway sends at most this many. */
const maxListed = 100

/** The quotes that can be served now, each with the time it has left. */
export function createQuotes({ say, isFull, isPaused }) {
  const panel = document.getElementById('quotes')
  const head = part(panel, 'head')
  const body = panel.querySelector('tbody')
  const filter = part(panel, 'filter')
  const dropAll = part(panel, 'drop-all')
  const rows = new Map()
  /** Position by key in the gateway's order: the most requested quote first. */
  let ranks = new Map()
  let isWhole = true
  let sorting

  for (const column of columns) {
    const button = element('button', {
      type: 'button',
      text: column.label,
      on: { click: () => sortBy(column) },
    })
    const title =
      column.key === 'drift' ? 'How far the price moved since the quote before this one' : undefined
    const names = [column.number ? 'number' : '', column.minor ? 'minor' : ''].join(' ').trim()
    head.append(element('th', { scope: 'col', class: names, 'data-column': column.key, title }, button))
  }
  head.append(element('td', { 'data-needs': 'full' }))
  filter.addEventListener('input', order)
  dropAll.addEventListener('click', () => drop('drop-all', {}))
  setInterval(() => {
    if (!isPaused()) countDown()
  }, updateEveryMs)

  function sortBy(column) {
    const first = column.number ? 'descending' : 'ascending'
    const other = first === 'descending' ? 'ascending' : 'descending'
    if (sorting?.column !== column) sorting = { column, direction: first }
    else sorting = sorting.direction === first ? { column, direction: other } : undefined
    for (const cell of head.children) {
      if (cell.dataset.column === sorting?.column.key) cell.setAttribute('aria-sort', sorting.direction)
      else cell.removeAttribute('aria-sort')
    }
    order()
  }

  async function drop(action, what) {
    try {
      const { dropped } = await act(action, what)
      say(dropped === 1 ? 'One quote was dropped.' : `${dropped} quotes were dropped.`)
      for (const [key, row] of rows) if (action === 'drop-all' || row.quote.id === what.id) remove(key)
    } catch (error) {
      say(error.message, 'error')
    }
  }

  function newRow() {
    const cells = {
      pair: element('span', { class: 'pair' }),
      brief: element('small', { class: 'narrow dim' }),
      amount: element('td', { class: 'number minor' }),
      toAmount: element('td', { class: 'number minor' }),
      hits: element('td', { class: 'number' }),
      drift: element('td', { class: 'number minor' }),
      drop: element('td', { class: 'number' }),
    }
    const countdown = createCountdown()
    const { pair, brief, amount, toAmount, hits, drift } = cells
    const node = element(
      'tr',
      {},
      element('td', {}, pair, brief),
      amount,
      toAmount,
      element('td', {}, countdown.node),
      hits,
      drift,
      cells.drop,
    )
    return { node, cells, countdown, quote: undefined }
  }

  function show(row, quote) {
    const { cells, countdown } = row
    row.quote = quote
    row.node.dataset.pair = quote.pair
    setText(cells.pair, quote.pair)
    setText(cells.brief, `${quote.amount} → ${quote.toAmount} ${quote.toAsset}`)
    setText(cells.amount, quote.amount)
    setText(cells.toAmount, `${quote.toAmount} ${quote.toAsset}`)
    setText(cells.hits, count(quote.hits))
    setText(cells.drift, quote.drift === null ? '–' : signedPercent(quote.drift))
    cells.drift.className = `number minor ${quote.drift > 0 ? 'up' : quote.drift < 0 ? 'down' : ''}`
    countdown.set(quote)
    if (isFull() && cells.drop.firstChild === null) {
      const label = `Drop ${quote.pair} ${quote.amount}`
      cells.drop.append(
        element('button', {
          type: 'button',
          class: 'drop',
          text: '×',
          'aria-label': label,
          title: label,
          on: { click: () => drop('drop', { id: row.quote.id }) },
        }),
      )
    } else if (!isFull()) cells.drop.replaceChildren()
    cells.drop.hidden = !isFull()
  }

  function remove(key) {
    rows.get(key)?.node.remove()
    rows.delete(key)
    tell()
  }

  function countDown() {
    for (const [key, row] of rows) {
      if (row.countdown.leftMs <= 0) remove(key)
      else row.countdown.update()
    }
  }

  function order() {
    const wanted = filter.value.trim().toLowerCase()
    const compare = sorting === undefined ? byRank : byColumn
    const sorted = [...rows.entries()].sort(compare).map(([, row]) => row)
    let next = body.firstChild
    for (const { node, quote } of sorted) {
      node.hidden = !`${quote.pair} ${quote.amount}`.toLowerCase().includes(wanted)
      // Only rows out of place are moved: moving a row takes the focus from its button, once a second.
      if (node === next) next = next.nextSibling
      else body.insertBefore(node, next)
    }
    tell()
  }

  function byRank([left], [right]) {
    return (ranks.get(left) ?? 0) - (ranks.get(right) ?? 0)
  }

  function byColumn([, left], [, right]) {
    const { column, direction } = sorting
    const [a, b] = [column.of(left.quote, left), column.of(right.quote, right)]
    const ascending = typeof a === 'string' ? a.localeCompare(b) : a - b
    return direction === 'ascending' ? ascending : -ascending
  }

  function tell() {
    const shown = [...rows.values()].filter(({ node }) => !node.hidden).length
    const all = isWhole ? `${rows.size} live` : `the ${rows.size} most requested`
    setText(part(panel, 'count'), shown === rows.size ? all : `${shown} of ${all}`)
    part(panel, 'empty').hidden = rows.size > 0
    dropAll.hidden = !isFull() || rows.size === 0
  }

  function update({ quotes }) {
    const seen = new Set()
    const times = new Map()
    ranks = new Map()
    isWhole = quotes.length < maxListed
    for (const [index, quote] of quotes.entries()) {
      // A provider may give one quote to several clients, and for readers ids are hidden: such rows differ only by their count.
      const nth = (times.get(quote.id) ?? 0) + 1
      times.set(quote.id, nth)
      const key = `${nth} ${quote.id}`
      seen.add(key)
      ranks.set(key, index)
      let row = rows.get(key)
      if (row === undefined) {
        row = newRow()
        rows.set(key, row)
      }
      show(row, quote)
    }
    for (const key of rows.keys()) if (!seen.has(key)) remove(key)
    order()
  }
  return { hello: update, tick: update }
}
