import { act } from './api.js'
import { copyButton } from './copy.js'
import { createCountdown } from './countdown.js'
import { element, part, setText } from './dom.js'
import { milliseconds, statusClass } from './format.js'

const maxSteps = 8

/** Lets a user send requests through the gateway: see a miss, a hit, a quote that expires, an order that is refused. */
export function createTryIt() {
  const panel = document.getElementById('try')
  const fields = {
    pair: input('pair', 'ETH_USDC'),
    amount: input('amount', '0.1'),
    application: input('application', 'demo'),
    client: input('client', '', 'your own, 127.0.0.1'),
  }
  const ask = element('button', { type: 'submit', class: 'primary', text: 'Ask for a quote' })
  const hint = element('p', { class: 'dim' })
  const steps = element('ol', { class: 'steps', 'aria-label': 'What you have tried' })
  const outcome = element('div', { 'aria-live': 'polite' })
  const orderBody = element('textarea', { name: 'order', rows: '4', spellcheck: 'false', maxlength: '65536' })
  const place = element('button', { type: 'button', text: 'Place the order' })
  const sure = element('input', { type: 'checkbox', name: 'sure' })
  const sureLabel = element('label', { class: 'check', hidden: true }, sure, 'This goes to the real provider')
  const countdown = createCountdown()
  const life = element('div', { hidden: true }, countdown.node)
  const order = element(
    'div',
    { class: 'stack', hidden: true },
    element('label', {}, 'Order body', orderBody),
    element('div', { class: 'row' }, sureLabel, element('span', { class: 'spring' }), place),
  )
  const form = element(
    'form',
    { class: 'stack' },
    element(
      'div',
      { class: 'fields' },
      labelled('Pair', fields.pair),
      labelled('Amount', fields.amount),
      labelled('App-Name', fields.application),
      labelled('Client address', fields.client),
    ),
    hint,
    element('div', { class: 'row middle' }, ask, steps),
    life,
    outcome,
    order,
  )
  part(panel, 'body').append(form)
  let live = false

  form.addEventListener('submit', (event) => {
    event.preventDefault()
    void send({ kind: 'quote' }, ask)
  })
  place.addEventListener('click', () => {
    if (live && !sure.checked)
      return outcome.prepend(element('p', { class: 'error', text: 'Tick the box first.' }))
    void send({ kind: 'order', body: orderBody.value }, place)
  })
  setInterval(() => {
    if (!life.hidden) countdown.update()
  }, 250)

  async function send(trial, button) {
    button.disabled = true
    try {
      const values = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.value]))
      const answer = await act('try', { ...values, ...trial })
      show(trial.kind, answer)
    } catch (error) {
      outcome.replaceChildren(element('p', { class: 'error', text: error.message }))
    } finally {
      button.disabled = false
    }
  }

  function show(kind, answer) {
    const cache = answer.headers.find(([name]) => name.toLowerCase() === 'cache-status')?.[1] ?? ''
    const word =
      kind === 'order'
        ? `order ${answer.status}`
        : answer.status === 200
          ? wordOf(cache)
          : `quote ${answer.status}`
    steps.append(element('li', { class: `chip ${word === 'hit' ? 'hit' : ''}`, text: word }))
    while (steps.childElementCount > maxSteps) steps.firstChild.remove()
    outcome.replaceChildren(
      element(
        'div',
        { class: 'outcome' },
        element(
          'div',
          { class: 'row' },
          element('span', {
            class: `status ${statusClass(answer.status)}`,
            text: `${answer.status} ${answer.reason}`,
          }),
          element('span', { class: 'chip', text: `${milliseconds(answer.durationMs)} ms` }),
          cache === '' ? null : element('span', { class: 'dim', text: cache.replace(/^quotegate; /, '') }),
          element('span', { class: 'spring' }),
          copyButton(answer.curl, 'Copy curl'),
        ),
        element('pre', {
          class: 'curl',
          tabindex: '0',
          'aria-label': 'The request as curl',
          text: answer.curl,
        }),
        element('pre', {
          class: 'body',
          tabindex: '0',
          'aria-label': 'The body of the answer',
          text: pretty(answer.body),
        }),
        element(
          'details',
          {},
          element('summary', { text: `${answer.headers.length} headers` }),
          element('pre', {
            tabindex: '0',
            text: answer.headers.map(([name, value]) => `${name}: ${value}`).join('\n'),
          }),
        ),
      ),
    )
    if (kind === 'quote' && answer.status === 200) offerOrder(answer)
  }

  function offerOrder({ body, headers }) {
    const quote = parsed(body)
    const isOne = isQuote(quote)
    life.hidden = !isOne
    order.hidden = !isOne
    if (!isOne) return
    const served = Date.parse(headers.find(([name]) => name.toLowerCase() === 'date')?.[1] ?? '')
    const ttl = /ttl=(\d+)/.exec(
      headers.find(([name]) => name.toLowerCase() === 'cache-status')?.[1] ?? '',
    )?.[1]
    const byOurs = quote.expiry - Date.now()
    const bySent = Number.isNaN(served) ? byOurs : quote.expiry - served
    // For a quote that is not cached the gateway sends no ttl.
    const leftMs =
      ttl === undefined
        ? Math.max(0, bySent)
        : Math.max(Number(ttl) * 1000, Math.min(byOurs, (Number(ttl) + 1) * 1000))
    countdown.set({ leftMs, lifeMs: Math.max(leftMs, bySent) })
    orderBody.value = JSON.stringify({
      pairId: quote.pairId,
      fromAmount: quote.fromAmount.value,
      toAmount: quote.toAmount.value,
      fromAddress: '0xfrom',
      toAddress: '0xto',
    })
  }

  return {
    hello({ health, traffic }) {
      live = health.mode === 'LIVE'
      sureLabel.hidden = !live
      setText(part(panel, 'where'), traffic.url ?? '')
      setText(
        hint,
        traffic.loopbackTrusted
          ? `The address is sent as ${traffic.clientIpHeader}, which this gateway trusts.`
          : 'Without TRUST_PROXY=loopback the gateway ignores a client address from here.',
      )
    },
    tick() {},
  }
}

function input(name, value, placeholder) {
  return element('input', { name, value, placeholder, autocomplete: 'off', spellcheck: 'false' })
}

function labelled(text, field) {
  return element('label', {}, text, field)
}

function wordOf(cacheStatus) {
  if (/; hit/.test(cacheStatus)) return 'hit'
  if (/collapsed/.test(cacheStatus)) return 'collapsed'
  return /stored/.test(cacheStatus) ? 'miss' : 'not kept'
}

function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Whether `value` has what the countdown and an order need; a provider may answer 200 with anything. */
function isQuote(value) {
  return (
    typeof value?.fromAmount?.value === 'string' &&
    typeof value.toAmount?.value === 'string' &&
    typeof value.expiry === 'number'
  )
}

function pretty(text) {
  const json = parsed(text)
  return json === undefined ? text : JSON.stringify(json, null, 2)
}
