import { element, part, setText } from './dom.js'
import { clockTime, count, span, spans } from './format.js'
import { createOpenRow, holdOpenRow } from './open-row.js'
import { refusedOrderDetails } from './refused-order-details.js'

const maxShown = 50
const columns = 5

/** The last refused or reported orders by application, the newest first within each. */
export function createRefusedOrders({ isFull }) {
  const panel = document.getElementById('orders')
  const table = panel.querySelector('table')
  const scroller = panel.querySelector('.scroll')
  /** By application; null is what the gateway does not count apart. */
  const groups = new Map()
  let rows = []

  function groupOf(application) {
    const known = groups.get(application)
    if (known !== undefined) return known
    const sum = element('span')
    const heading = element('th', { scope: 'rowgroup', colspan: String(columns) }, sum)
    const body = element('tbody', {}, element('tr', { class: 'group', hidden: !isFull() }, heading))
    const group = { application, body, sum, rows: 0 }
    groups.set(application, group)
    table.tHead.after(body)
    return group
  }

  function add(order) {
    const group = groupOf(order.application)
    const what = [order.pair, order.amount].filter((text) => text !== '').join(' ')
    const button = element('button', {
      type: 'button',
      class: 'open',
      text: what || (order.reason === 'expired' ? 'expired quote' : 'unknown quote'),
    })
    const isKnown = order.reason === 'expired'
    const node = element(
      'tr',
      {},
      element('td', { class: 'dim at', text: clockTime(order.at) }),
      element('td', { class: 'pair' }, button),
      element('td', { class: 'dim minor', text: order.rule }),
      element('td', { class: 'number minor', text: isKnown ? span(order.quoteAgeMs) : '–' }),
      element('td', { class: 'number', text: isKnown ? lateText(order) : 'unknown' }),
    )
    const shown = createOpenRow({ row: node, button, columns, describe: () => refusedOrderDetails(order) })
    group.body.firstChild.after(node)
    group.rows += 1
    rows.unshift({ shown, group })
  }

  function trim() {
    rows = rows.filter(({ shown, group }, index) => {
      if (index < maxShown || shown.isOpen) return true
      shown.remove()
      group.rows -= 1
      return false
    })
  }

  function sumUp(refusedByApplication) {
    const sums = new Map(refusedByApplication.map((sum) => [sum.application, sum]))
    for (const application of [...sums.keys()].reverse()) groupOf(application)
    for (const [application, group] of groups) {
      const sum = sums.get(application)
      if (sum === undefined && group.rows === 0) {
        group.body.remove()
        groups.delete(application)
      } else setText(group.sum, `${nameOf(application)}: ${sum === undefined ? without(sums) : sumText(sum)}`)
    }
  }

  function tell({ refusedTotal, reportedTotal, refusedByApplication }) {
    trim()
    sumUp(refusedByApplication)
    setText(part(panel, 'count'), totals({ refusedTotal, reportedTotal }))
    part(panel, 'empty').hidden = groups.size > 0
  }

  return {
    hello(frame) {
      for (const { body } of groups.values()) body.remove()
      groups.clear()
      rows = []
      for (const order of frame.refusals.toReversed()) add(order)
      tell(frame)
    },
    tick(frame) {
      holdOpenRow(scroller, () => {
        for (const order of frame.refusals.toReversed()) add(order)
        tell(frame)
      })
    },
  }
}

function lateText({ expiredForMs, sent }) {
  return sent ? `${span(expiredForMs)}, sent` : span(expiredForMs)
}

function totals({ refusedTotal, reportedTotal }) {
  const refused = refusedTotal > 0 ? [`${count(refusedTotal)}`] : []
  const reported = reportedTotal > 0 ? [`${count(reportedTotal)} reported and sent`] : []
  const all = [...refused, ...reported]
  return all.length > 0 ? `${all.join(', ')} since the start` : ''
}

/** Of an application that is not among those counted apart. */
function without(sums) {
  return sums.has(null) ? 'counted among other applications' : 'none refused in the last hour'
}

function nameOf(application) {
  if (application === null) return 'other applications'
  return application === '' ? 'without App-Name' : application
}

/** A gateway either refuses expired orders or reports them. */
function sumText({ orders, expired, reported, unknown, leastLateMs, mostLateMs }) {
  const tooLate = expired || reported
  const late =
    tooLate > 0
      ? [
          `${count(tooLate)} of ${counted(orders)} ${spans(leastLateMs, mostLateMs)} late${reported > 0 ? ' and sent' : ''}`,
        ]
      : []
  const strange = tooLate > 0 ? `${count(unknown)} match` : `${count(unknown)} of ${counted(orders)} match`
  return [...late, ...(unknown > 0 ? [`${strange} no quote`] : [])].join(', ')
}

function counted(orders) {
  return `${count(orders)} order${orders === 1 ? '' : 's'}`
}
