import { act } from './connection.js'
import { copyableId, tailOf } from './controls.js'
import { clockTime, count, many, span, spans } from './format.js'
import { facts, html, Panel, page, redraw, Table } from './page.js'
import { openButton, openingRow, withOpen } from './rows.js'

const columns = 5
const heads = [
  'Time',
  'Order',
  'Rule, minor',
  'Quote age, number minor',
  'Late by, number',
]

let explanation

/** Refused and reported orders, newest first. */
export function view() {
  const orders = withOpen('orders', page.shown.lastRefusals)
  const sums = new Map(
    page.shown.refusedByApplication.map((sum) => [sum.application, sum]),
  )
  const applications = [
    ...new Set([...sums.keys(), ...orders.map(({ application }) => application)]),
  ]
  const empty = applications.length === 0 && 'No order has been refused.'
  return html`<${Panel} id="orders" title="Float orders refused" count=${totals(page.shown)}>
    <div class="beside">
      <${Table} of="orders" heads=${heads} empty=${empty}>
        ${applications.map((application) => group(application, sums, orders))}
      <//>
      ${page.isFull && explainForm()}
    </div>
  <//>`
}

function totals({ ordersRefused, ordersReported }) {
  const refused = ordersRefused > 0 && count(ordersRefused)
  const reported = ordersReported > 0 && `${count(ordersReported)} reported and sent`
  const all = [refused, reported].filter(Boolean)
  return all.length > 0 ? `${all.join(', ')} since the start` : ''
}

function group(application, sums, orders) {
  const sum = sums.get(application)
  // The application is not counted apart.
  const without = sums.has(null)
    ? 'counted among other applications'
    : 'none refused in the last hour'
  const name =
    application === null ? 'other applications' : application || 'without App-Name'
  const text = `${name}: ${sum === undefined ? without : sumText(sum)}`
  const heading = html`<th scope="rowgroup" colspan=${columns}>${text}</th>`
  return html`<tbody key=${application === null ? 'others' : `of ${application}`}>
    ${page.isFull && html`<tr class="group">${heading}</tr>`}
    ${orders.filter((order) => order.application === application).flatMap(rowOf)}
  </tbody>`
}

/** A gateway either refuses expired orders or reports them. */
function sumText({ orders: all, expired, reported, unknown, leastLateMs, mostLateMs }) {
  const tooLate = expired || reported
  const sent = reported > 0 ? ' and sent' : ''
  const late =
    tooLate > 0 &&
    `${count(tooLate)} of ${many(all, 'order')} ${spans(leastLateMs, mostLateMs)} late${sent}`
  const strange = late ? count(unknown) : `${count(unknown)} of ${many(all, 'order')}`
  return [late, unknown > 0 && `${strange} match no quote`].filter(Boolean).join(', ')
}

function rowOf(order) {
  const { at, pair, amount, reason, rule, quoteAgeMs, expiredForMs, sent } = order
  const isKnown = reason === 'expired'
  const what =
    [pair, amount].filter(Boolean).join(' ') ||
    (isKnown ? 'expired quote' : 'unknown quote')
  const late = isKnown ? `${span(expiredForMs)}${sent ? ', sent' : ''}` : 'unknown'
  const cells = html`
    <td class="dim at">${clockTime(at)}</td>
    <td class="pair">${openButton('orders', order, undefined, what)}</td>
    <td class="dim minor">${rule}</td>
    <td class="number minor">${isKnown ? span(quoteAgeMs) : '–'}</td>
    <td class="number">${late}</td>`
  return openingRow('orders', order, { columns, cells, describe: () => details(order) })
}

function details(order) {
  const ids = order.quoteIds.map(
    (id) => html`<li>${copyableId(id, { what: 'quote id' })}</li>`,
  )
  return facts([
    [
      'Order',
      [order.amount, order.pair, order.toAmount && `for ${order.toAmount}`]
        .filter(Boolean)
        .join(' '),
    ],
    ['Names', ids.length > 0 ? html`<ul class="stack">${ids}</ul>` : ''],
    ['App-Name', order.application],
    ["User's address", order.client],
    ['Quote age', order.quoteAgeMs === null ? '' : span(order.quoteAgeMs)],
    ['Late by', lateText(order)],
    ['Sent', order.sent ? 'reported only: ORDER_EXPIRED_QUOTE is report' : ''],
    ['Why', order.why],
    ['Rule', order.rule],
    ['Quotes considered', quoteList(order)],
    ['Request id', copyableId(order.requestId, { what: 'request id' })],
  ])
}

function lateText({ expiredForMs }) {
  if (expiredForMs === 0)
    return 'not yet: less than ORDER_EXPIRY_MARGIN_MS before its expiry'
  return expiredForMs === null ? '' : `${span(expiredForMs)} after its expiry`
}

function quoteList({ quotes, quotesConsidered }) {
  // Without full rights only their number is shown, not the quotes.
  if (quotes.length === 0) return String(quotesConsidered)
  const more = quotesConsidered - quotes.length
  return html`<ul class="stack">
    ${quotes.map(quoteItem)}
    ${more > 0 && html`<li class="dim">and ${more} more</li>`}
  </ul>`
}

function quoteItem({ id, amount, toAmount, lateMs, isOwn, decided }) {
  const late =
    lateMs > 0 ? `expired ${span(lateMs)} before` : `live for ${span(-lateMs)} more`
  const given = `given to ${isOwn ? 'this' : 'another'} user${decided ? ', it decided' : ''}`
  const shownId = copyableId(id, { what: 'quote id', text: tailOf(id) })
  return html`<li class=${decided && 'decided'}>${shownId} ${amount} for ${toAmount}, ${late}, ${given}</li>`
}

function explainForm() {
  return html`<form data-role="explain" class="stack" onSubmit=${explain}>
    <h3>Explain an order</h3>
    <p class="dim">What the gateway would do with it now. Nothing is sent, counted or remembered.</p>
    <label>Order body<textarea name="body" rows="3" spellcheck=${false} maxlength="65536"
      defaultValue='{"pairId":"ETH_USDC","fromAmount":0.1}'></textarea></label>
    <div class="row flow">
      <label class="grow">App-Name<input name="application" defaultValue="demo" autocomplete="off"
        spellcheck=${false} /></label>
      <button type="submit">Explain</button>
    </div>
    <div data-role="explained" aria-live="polite">${explanation && explained(explanation)}</div>
  </form>`
}

async function explain(event) {
  event.preventDefault()
  const { body, application } = Object.fromEntries(new FormData(event.target))
  explanation = await act('explain', { body, application }).catch((error) => ({ error }))
  redraw()
}

function explained({ error, decision, detail, ...order }) {
  if (error !== undefined) return html`<p class="error">${error.message}</p>`
  const isRefused = /^(refused|reported|bad)/.test(decision)
  return html`<div class="outcome stack">
    <div class="flow">
      <span class="status ${isRefused ? 'warn' : 'good'}">${decision}</span>
      <span class="dim">${detail}</span>
    </div>
    ${order.rule && details(order)}
  </div>`
}
