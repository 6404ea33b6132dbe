import { act } from './api.js'
import { element, facts, part } from './dom.js'
import { span } from './format.js'
import { createRefusedOrders } from './refused-orders.js'

/** The last refused orders, and a check of what would happen to an order. */
export function createOrders(context) {
  const panel = document.getElementById('orders')
  const form = part(panel, 'explain')
  const explained = part(panel, 'explained')
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    const { body: text, application } = Object.fromEntries(new FormData(form))
    try {
      explained.replaceChildren(explanation(await act('explain', { body: text, application })))
    } catch (error) {
      explained.replaceChildren(element('p', { class: 'error', text: error.message }))
    }
  })
  return createRefusedOrders(context)
}

function explanation({ decision, detail, matchedBy, order, quote }) {
  const refused = /^(refused|reported|bad)/.test(decision)
  return element(
    'div',
    { class: 'outcome' },
    element(
      'div',
      { class: 'row' },
      element('span', { class: `status ${refused ? 'warn' : 'good'}`, text: decision }),
      element('span', { class: 'dim', text: detail }),
    ),
    facts([
      [
        'Read as',
        order &&
          [order.fromAmount, order.pair, order.toAmount && `for ${order.toAmount}`].filter(Boolean).join(' '),
      ],
      ['Ids named', order?.quoteIds.join(', ')],
      ['Matched by', matchedBy],
      ['Quote', quote && `${quote.amount} ${quote.pair} for ${quote.toAmount}`],
      ['Its App-Name', quote?.application],
      ['Its age', quote && span(quote.ageMs)],
      ['Its expiry', quote && (quote.leftMs > 0 ? `in ${span(quote.leftMs)}` : `${span(-quote.leftMs)} ago`)],
      ['Its id', quote?.id],
    ]),
  )
}
