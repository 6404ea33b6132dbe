import { copyableId, tailOf } from './copy.js'
import { element, facts } from './dom.js'
import { span } from './format.js'

/** The terms of a refused or reported order, the quotes that were considered, how late it was, and by which rule. */
export function refusedOrderDetails(order) {
  return facts([
    [
      'Order',
      [order.amount, order.pair, order.toAmount && `for ${order.toAmount}`].filter(Boolean).join(' '),
    ],
    ['Names', idList(order.quoteIds)],
    ['App-Name', order.application],
    ['Client', order.client],
    ['Late by', lateText(order)],
    ['Sent', order.sent ? 'reported only: ORDER_EXPIRED_QUOTE is report' : ''],
    ['Why', order.why],
    ['Rule', order.rule],
    ['Quotes considered', quoteList(order)],
    ['Request id', copyableId(order.requestId, { what: 'request id' })],
  ])
}

function lateText({ expiredForMs }) {
  if (expiredForMs === null) return ''
  return expiredForMs === 0
    ? 'not yet: less than ORDER_EXPIRY_MARGIN_MS before its expiry'
    : `${span(expiredForMs)} after its expiry`
}

function idList(ids) {
  if (ids.length === 0) return ''
  return element(
    'ul',
    { class: 'quote-list' },
    ...ids.map((id) => element('li', {}, copyableId(id, { what: 'quote id' }))),
  )
}

function quoteList({ quotes, quotesConsidered }) {
  // Their number is all that is shown without full rights.
  if (quotes.length === 0) return String(quotesConsidered)
  const more = quotesConsidered - quotes.length
  return element(
    'ul',
    { class: 'quote-list' },
    ...quotes.map(quoteItem),
    more > 0 ? element('li', { class: 'dim', text: `and ${more} more` }) : undefined,
  )
}

function quoteItem({ id, amount, toAmount, lateMs, isOwn, decided }) {
  const says = [
    `${amount} for ${toAmount}`,
    lateMs > 0 ? `expired ${span(lateMs)} before` : `live for ${span(-lateMs)} more`,
    isOwn ? 'given to this client' : 'given to another client',
    decided ? 'it decided' : '',
  ]
  return element(
    'li',
    { class: decided ? 'decided' : '' },
    copyableId(id, { what: 'quote id', text: tailOf(id) }),
    ` ${says.filter(Boolean).join(', ')}`,
  )
}
