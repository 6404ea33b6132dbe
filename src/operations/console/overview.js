import { copyableId, tailOf } from './controls.js'
import {
  bytes,
  clockTime,
  count,
  many,
  milliseconds,
  percent,
  reach,
  span,
} from './format.js'
import { ageMs, html, leftOf, page } from './page.js'

const clockOffMs = 2_000
const down =
  'VALKEY_URL does not answer: this replica works on its own, with its own memory'

export function brand() {
  const { mode, version } = page.latest
  return html`<span class="badge ${mode === 'LIVE' ? 'good' : 'warn'}" id="mode">${mode}</span>
    <span class="dim" id="version">v${version}</span>`
}

/** The line at the top: the gateway, its upstreams and what it keeps. */
export function health() {
  const {
    ready,
    uptimeMs,
    upstreams,
    coolDowns,
    journal,
    slowest,
    store,
    cache,
    ledger,
    clock,
  } = page.latest
  return html`
    <${Item} id="ready" name=${ready ? 'ready' : 'not ready'} value="up ${span(uptimeMs + ageMs())}" tone=${goodIf(ready)} />
    ${upstreams.map((upstream) => upstreamItem(upstream, coolDowns))}
    <${Item} id="store" name="store: ${store.kind}${store.up ? '' : ', down'}" tone=${goodIf(store.up)}
      value="${many(cache.entries, 'quote')}, ${bytes(cache.bytes)}; ledger ${count(ledger.entries)}"
      title=${store.up ? '' : down} />
    ${journal.disk && diskItem(journal.disk)}
    ${journal.stream && streamItem(journal.stream)}
    ${slowest && slowestItem(slowest)}
    ${clockItem(clock)}`
}

const goodIf = (isGood) => (isGood ? 'good' : 'bad')

function Item({ id, name, value, tone = '', title = '', children }) {
  return html`<li class="flow" data-item=${id} title=${title}>
    <span class="dot ${tone}" aria-hidden="true"></span><span>${name}</span><span class="dim">${value}</span>
    ${children}
  </li>`
}

function upstreamItem(
  { name, breakers, inFlight, sandbox, connectionsMost, queueMost },
  coolDowns,
) {
  const stopped = breakers.filter(({ state }) => state !== 'closed').map(breakerText)
  const troubles = [...stopped]
  if (name === 'swap' && coolDowns.clients > 0) troubles.push(coolDownText(coolDowns))
  const outages = page.latest.outages.filter(
    ({ what, upstream }) => upstream === name && what !== 'slow',
  )
  for (const { what, text, failing, lastFailure } of outages) {
    // The text is the outage's, so that both say the same number.
    if (what === 'pairs') troubles.push(text)
    else if (what !== 'upstream' || stopped.length === 0)
      troubles.push(`${failing.join(', ')} failing (${lastFailure})`)
  }
  // Red if anything but single pairs is stopped, or most calls fail.
  const isStopped =
    breakers.some(({ state }) => state === 'open') ||
    outages.some(({ isSevere }) => isSevere)
  const usual = `${sandbox ? 'sandbox, ' : ''}breakers closed${inFlight > 0 ? `, ${inFlight} in flight` : ''}`
  return html`<${Item} key=${name} id="upstream-${name}" name=${name} value=${troubles.join('; ') || usual}
    tone=${isStopped ? 'bad' : troubles.length > 0 ? 'warn' : 'good'}
    title="At most ${connectionsMost} connections, and ${queueMost} that wait for one" />`
}

function breakerText({ name, state, retryAfterMs }) {
  return state === 'open'
    ? `${name} stopped, next try in ${span(leftOf(retryAfterMs))}`
    : `${name}: trying again`
}

function coolDownText({ clients, longestLeftMs }) {
  return `429: quotes of ${many(clients, 'user')} not requested for ${span(leftOf(longestLeftMs))} at most`
}

function diskItem({
  appended,
  waiting,
  bytes: size,
  awaySinceMs,
  syncedAtMs,
  restored,
  skipped,
  setAside,
}) {
  const title =
    `The journal in STATE_DIRECTORY. Last sync ${clockTime(syncedAtMs)}; restored at the start: ${count(restored)}, ` +
    `skipped: ${count(skipped)}, files set aside: ${count(setAside)}${awayText(awaySinceMs)}`
  return html`<${Item} id="disk" name="disk${awaySinceMs === null ? '' : ': not written'}"
    value="${many(appended, 'record')} appended, ${count(waiting)} waiting, ${bytes(size)}"
    tone=${journalTone(awaySinceMs, skipped + setAside)} title=${title} />`
}

function streamItem({ appended, waiting, behind, skipped, awaySinceMs }) {
  return html`<${Item} id="stream" name="shared journal${awaySinceMs === null ? '' : ': away'}"
    value="${many(appended, 'record')} appended, ${count(waiting)} waiting, behind by ${count(behind)}"
    tone=${journalTone(awaySinceMs, skipped)}
    title="What the replicas tell each other by VALKEY_URL. Skipped: ${count(skipped)}${awayText(awaySinceMs)}" />`
}

const awayText = (ms) => (ms === null ? '' : `; away since ${clockTime(ms)}`)
const journalTone = (awaySinceMs, lost) =>
  awaySinceMs !== null ? 'bad' : lost > 0 ? 'warn' : 'good'

function slowestItem({ area, durationMs, traceId, requestId }) {
  const trace =
    traceId && copyableId(traceId, { what: 'trace id', text: tailOf(traceId) })
  return html`<${Item} id="slowest" name="slowest in 60 s" value="${span(durationMs)}, ${area}"
    title=${requestId && `request ${requestId}`}>${trace}<//>`
}

function clockItem({ estimateMs, lowMs, highMs, unknown }) {
  const between = lowMs !== null && `${Math.round(lowMs)} and ${Math.round(highMs)} ms`
  const [value, tone] = clockText(estimateMs, lowMs !== null, unknown)
  return html`<${Item} id="clock" name="provider's clock" value=${value} tone=${tone}
    title=${between && `It is between ${between} ahead of ours`} />`
}

function clockText(estimateMs, isKnown, isUnreadable) {
  if (isUnreadable) return ['unknown: its answers have no Date', 'warn']
  if (!isKnown) return ['not known yet', '']
  if (estimateMs === 0) return ['agrees with ours', 'good']
  const offMs = Math.abs(estimateMs)
  return [
    `${span(offMs)} ${estimateMs > 0 ? 'ahead' : 'behind'}`,
    offMs > clockOffMs ? 'bad' : 'warn',
  ]
}

export function savings() {
  const { savings: sums, upstreams } = page.latest
  const { quotes, callsSaved, orders, ordersMatched, expiredOrdersStopped } = sums
  const swap = upstreams.find(({ name }) => name === 'swap')
  const provider = swap?.traffic.find(({ traffic }) => traffic === 'quotes')
  const p95 = provider?.p95Ms ? `${milliseconds(provider.p95Ms)} ms` : '–'
  const ofQuotes =
    quotes === 0 ? '' : ` (${percent(callsSaved / quotes, 0)} of ${count(quotes)} quotes)`
  const expired = `expired ${expiredOrdersStopped === 1 ? 'order' : 'orders'} stopped`
  const matched = orders === 0 ? '–' : percent(ordersMatched / orders, 0)
  return html`
    <span class="dim">Since the start</span>
    ${saved('calls', count(callsSaved), `calls saved${ofQuotes}`)}
    ${saved('expired', count(expiredOrdersStopped), expired)}
    ${saved('matched', matched, `of ${many(orders, 'order')} matched`)}
    ${provider && saved('provider', p95, `provider's p95 for quotes (${reach(provider.seconds)})`)}`
}

function saved(key, value, text) {
  return html`<span class="saved" data-saved=${key}><strong>${value}</strong> <span>${text}</span></span>`
}
