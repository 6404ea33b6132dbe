import { clockTime, count, listed, many, milliseconds, pairsOf, percent, span } from './format.js'
import { html, page } from './page.js'

/** Pairs and peers that a sentence names. */
const maxNames = 5
const names = { swap: 'swap API', payments: 'payments API', webhooks: 'receiver of webhooks' }
const kinds = { orders: 'Orders to the', rest: 'Requests other than quotes and orders to the' }

/** One sentence for each thing that is wrong. The parts that change by the second are not read aloud again. */
export function view() {
  return page.latest.outages.filter(isNews).map((outage) => {
    const { id, what, upstream, traffic, isSevere, runbook, stillServed = [] } = outage
    // A gateway that restarted gives the same ids again.
    const key = [id, what, upstream, traffic].join(' ')
    const [title, how, now] = sentences[what]?.(outage) ?? [what]
    const comma = what === 'pairs' && isSevere ? ',' : ''
    return html`<p key=${key} class="outage ${isSevere ? 'bad' : 'warn'}" data-outage=${what}>
      <strong>${title}</strong>
      <span aria-live="off">${comma} since ${sinceText(outage)}</span>
      <span>${how}</span>
      <span aria-live="off">${now}</span>
      <span class="served">${stillServed.length > 0 && ` Still served: ${listed(stillServed)}.`}</span>
      ${' '}<a target="_blank" rel="noopener noreferrer" href=${runbook}>What to do</a>
    </p>`
  })
}

/** Single pairs say nothing more where there is no connection to their upstream. */
function isNews({ what, upstream }, _index, outages) {
  if (what !== 'pairs') return true
  return !outages.some((other) => other.traffic === 'connections' && other.upstream === upstream)
}

function sinceText({ since }) {
  return `${clockTime(since)} (${span(Math.max(0, page.latest.health.now - since))})`
}

/** By what is wrong: the sentence before and after its time; its last part changes by the second. */
const sentences = {
  upstream: (outage) => [titleOf(outage), failureOf(outage), refusedAndNext(outage)],
  pairs: (outage) => [pairsTitle(outage), failureOf(outage), refusedAndNext(outage)],
  slow: ({ upstream, p95Ms, usualP95Ms }) => [
    `The ${nameOf(upstream)} answers slowly`,
    `: its p95 of 10 min is ${milliseconds(p95Ms)} ms, usually ${milliseconds(usualP95Ms)} ms.`,
  ],
  store: (outage) => [
    'The shared store has been down',
    failureOf(outage),
    `; ${many(outage.requests, 'order')} forwarded that would have been refused as expired, ` +
      'it is tried again every second.',
  ],
  clock: ({ offsetMs }) => [
    `The provider's clock is ${offsetMs === undefined ? 'unknown' : offsetText(offsetMs)}`,
    offsetMs === undefined
      ? ': its answers have no Date that can be read, so quotes expire by our own clock.'
      : ': quotes expire by its clock, so check which of the two is wrong.',
  ],
  'trust-proxy': (outage) => [
    `${peers(outage)} sent a client-address header but ${outage.howMany === 1 ? 'is' : 'are'} not in TRUST_PROXY`,
    ': to the provider, all users behind it look like one',
    `; ${many(outage.requests, 'request')} so far.`,
  ],
  'client-ip-header': (outage) => [
    `${peers(outage)} ${outage.howMany === 1 ? 'is trusted and sends' : 'are trusted and send'} ` +
      `${listed(outage.headers)}, but CLIENT_IP_HEADER is ${outage.clientIpHeader}`,
    ': to the provider, all users of these requests look like one',
    `; ${many(outage.requests, 'request')} so far.`,
  ],
  'unknown-orders': ({ share, usualShare, requests }) => [
    `${percent(share, 0)} of the float orders of the last 30 min were forwarded as unknown`,
    // Half of all orders is too much, even if it is usual.
    share > usualShare
      ? `, more than the usual ${percent(usualShare, 0)}`
      : ', which is more than half of them',
    requests > 0 ? `; ${count(requests)} since then.` : '.',
  ],
}

const nameOf = (upstream) => names[upstream] ?? upstream

function titleOf({ upstream, traffic }) {
  if (traffic === 'connections') return `There has been no connection to the ${nameOf(upstream)}`
  return `${kinds[traffic] ?? traffic} ${nameOf(upstream)} have failed`
}

function pairsTitle(outage) {
  if (outage.isSevere) return `All quotes that were asked for fail (${pairsOf(outage)})`
  return `Quotes of ${named(outage, 'pair')} have failed`
}

const offsetText = (ms) => `${span(Math.abs(ms))} ${ms > 0 ? 'ahead of' : 'behind'} ours`

const failureOf = ({ lastFailure }) => (lastFailure ? `; the last failure was ${lastFailure}` : '')

function refusedAndNext({ requests, retryInMs }) {
  const after = retryInMs === 0 ? 'the next request tries again' : `the next try is in ${span(retryInMs)}`
  // The next request tries once the breaker lets it.
  const next = retryInMs === undefined ? 'a request is trying now' : after
  return `; ${many(requests, 'request')} refused meanwhile, ${next}.`
}

/** `1 pair (ETH_USDC)`; without full rights only how many. */
function named({ names: all, howMany }, what) {
  if (all.length === 0) return many(howMany, what)
  const brief = all.slice(0, maxNames).map((name) => (name.length > 40 ? `${name.slice(0, 40)}…` : name))
  return `${many(howMany, what)} (${brief.join(', ')}${howMany > maxNames ? ', and more' : ''})`
}

/** So few peers are named without their number. */
function peers(outage) {
  const areFew = outage.names.length > 0 && outage.howMany <= maxNames
  return areFew ? listed(outage.names) : named(outage, 'peer')
}
