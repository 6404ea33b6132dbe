import { act } from './connection.js'
import { copyButton, countdown } from './controls.js'
import { milliseconds, statusClass } from './format.js'
import { html, Panel, page, redraw } from './page.js'
import { cacheKind } from './requests.js'

const maxSteps = 8

let steps = []
let answer
let error
/** The last quote, with an order for it; undefined: the answer was not a quote. */
let offer

/** Lets a user see a miss, a hit, a quote that expires, a late order. */
export function view() {
  if (!page.isFull) return undefined
  const { mode, traffic } = page.shown
  const hint = traffic.loopbackTrusted
    ? `The address is sent as ${traffic.clientIpHeader}, which this gateway trusts.`
    : "Without TRUST_PROXY=loopback the gateway ignores a user's address from here."
  return html`<${Panel} id="try" title="Try it" count=${traffic.url ?? ''}>
    <form class="stack" data-role="body" onSubmit=${send}>
      <div class="fields stack">
        ${field('Pair', 'pair', 'ETH_USDC')} ${field('Amount', 'amount', '0.1')}
        ${field('App-Name', 'application', 'demo')}
        ${field("User's address", 'client', '', 'your own, 127.0.0.1', !traffic.loopbackTrusted)}
      </div>
      <p class="dim">${hint}</p>
      <div class="flow">
        <button type="submit" class="primary" value="quote">Ask for a quote</button>
        <ol class="steps flow" aria-label="What you have tried">
          ${steps.map((step) => html`<li class="chip ${step}">${step}</li>`)}
        </ol>
      </div>
      ${offer && html`<div>${countdown(offer)}</div>`}
      <div aria-live="polite">
        ${error && html`<p class="error">${error}</p>`}
        ${answer && outcome(answer)}
      </div>
      ${offer && orderForm(mode === 'LIVE')}
    </form>
  <//>`
}

function field(label, name, value, placeholder, disabled = false) {
  return html`<label>${label}<input name=${name} defaultValue=${value} placeholder=${placeholder} disabled=${disabled}
    autocomplete="off" spellcheck=${false} /></label>`
}

function orderForm(isLive) {
  return html`<div class="stack">
    <label>Order body<textarea name="body" rows="4" spellcheck=${false} maxlength="65536" value=${offer.order}
      onInput=${({ target }) => (offer.order = target.value)}></textarea></label>
    <div class="row flow">
      ${isLive && html`<label class="check"><input type="checkbox" name="sure" />This goes to the real provider</label>`}
      <span class="grow"></span>
      <button type="submit" value="order">Place the order</button>
    </div>
  </div>`
}

async function send(event) {
  event.preventDefault()
  const { target: form, submitter: button } = event
  const { sure, ...trial } = Object.fromEntries(new FormData(form))
  const kind = button.value
  button.disabled = true
  try {
    if (kind === 'order' && form.elements.sure && !sure)
      throw new Error('Tick the box first.')
    answer = await act('try', { kind, ...trial })
    error = undefined
    steps = [...steps, wordOf(kind, answer)].slice(-maxSteps)
    if (kind === 'quote' && answer.status === 200) offer = offerOf(answer)
  } catch (failure) {
    answer = undefined
    error = failure.message
  }
  button.disabled = false
  redraw()
}

function wordOf(kind, { status, headers }) {
  if (kind === 'order' || status !== 200) return `${kind} ${status}`
  return cacheKind(headerOf(headers, 'cache-status')) ?? 'not kept'
}

const headerOf = (headers, name) => new Headers(headers).get(name) ?? ''

function outcome({ status, reason, durationMs, curl, body, headers }) {
  const cache = headerOf(headers, 'cache-status').replace(/^quotegate; /, '')
  const json = parsed(body)
  const shown = json === undefined ? body : JSON.stringify(json, null, 2)
  return html`<div class="outcome stack">
    <div class="flow">
      <span class="status ${statusClass(status)}">${status} ${reason}</span>
      <span class="chip">${milliseconds(durationMs)} ms</span>
      ${cache && html`<span class="dim">${cache}</span>`}
      <span class="grow"></span>
      ${copyButton(curl, 'Copy curl')}
    </div>
    <pre class="curl" tabindex="0" aria-label="The request as curl">${curl}</pre>
    <pre class="body" tabindex="0" aria-label="The body of the answer">${shown}</pre>
    <details>
      <summary class="dim">${headers.length} headers</summary>
      <pre tabindex="0">${headers.map(([name, value]) => `${name}: ${value}`).join('\n')}</pre>
    </details>
  </div>`
}

function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function offerOf({ body, headers }) {
  const { pairId, fromAmount, toAmount, expiry } = parsed(body) ?? {}
  // A provider may answer 200 with anything.
  const types = [typeof fromAmount?.value, typeof toAmount?.value, typeof expiry]
  if (types.join() !== 'string,string,number') return undefined
  const served = Date.parse(headerOf(headers, 'date'))
  const ttl = /ttl=(\d+)/.exec(headerOf(headers, 'cache-status'))?.[1]
  const byOurs = expiry - Date.now()
  const bySent = Number.isNaN(served) ? byOurs : expiry - served
  const byTtl = Math.max(Number(ttl) * 1000, Math.min(byOurs, (Number(ttl) + 1) * 1000))
  // A quote that is not cached has no ttl.
  const leftMs = ttl === undefined ? Math.max(0, bySent) : byTtl
  const terms = { pairId, fromAmount: fromAmount.value, toAmount: toAmount.value }
  const order = JSON.stringify({ ...terms, fromAddress: '0xfrom', toAddress: '0xto' })
  return { endsAt: performance.now() + leftMs, lifeMs: bySent, order }
}
