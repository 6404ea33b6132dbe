import { act } from './api.js'
import { element, facts, part, setText } from './dom.js'
import { clockTime, count, span } from './format.js'

const maxShown = 50

/** The last refused orders, and a check of what would happen to an order. */
export function createOrders({ isFull }) {
  const panel = document.getElementById('orders')
  const body = panel.querySelector('tbody')
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

  function rowOf(order) {
    const what = [order.pair, order.amount].filter((text) => text !== '').join(' ')
    return element(
      'tr',
      {
        title: [order.quoteId && `quote ${order.quoteId}`, order.requestId]
          .filter(Boolean)
          .join(', request '),
      },
      element('td', { class: 'dim at', text: clockTime(order.at) }),
      element('td', {
        class: 'pair',
        text: what || (order.reason === 'expired' ? 'expired quote' : 'unknown quote'),
      }),
      element('td', { text: order.application || '–' }),
      element('td', {
        class: 'number',
        text: order.reason === 'unknown' ? 'unknown' : span(order.quoteAgeMs),
      }),
      element('td', { class: 'number minor', text: span(order.expiredForMs) }),
    )
  }

  function tell(refusedTotal) {
    setText(part(panel, 'count'), refusedTotal > 0 ? `${count(refusedTotal)} since the start` : '')
    part(panel, 'empty').hidden = body.childElementCount > 0
    form.hidden = !isFull()
  }

  return {
    hello({ refusals, refusedTotal }) {
      body.replaceChildren(...refusals.map(rowOf))
      tell(refusedTotal)
    },
    tick({ refusals, refusedTotal }) {
      body.prepend(...refusals.map(rowOf))
      while (body.childElementCount > maxShown) body.lastChild.remove()
      tell(refusedTotal)
    },
  }
}

function explanation({ decision, detail, matchedBy, order, quote }) {
  const refused = /^(refused|bad)/.test(decision)
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
