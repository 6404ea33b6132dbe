import { element, setText } from './dom.js'
import { clockTime, count, listed, milliseconds, pairsOf, percent, span } from './format.js'

const kinds = {
  orders: 'Orders to the',
  rest: 'Requests other than quotes and orders to the',
}
/** Pairs and peers that a sentence names. */
const maxNames = 5
const names = { swap: 'swap API', payments: 'payments API', webhooks: 'receiver of webhooks' }

/** One sentence for each thing that is wrong. The parts that change by the second are not read aloud again. */
export function createOutages() {
  const section = document.getElementById('outages')
  const shown = new Map()

  function add(key, outage) {
    const parts = {
      what: element('strong'),
      since: element('span', { 'aria-live': 'off' }),
      how: element('span'),
      now: element('span', { 'aria-live': 'off' }),
      served: element('span', { class: 'served' }),
    }
    const runbook = element('a', { target: '_blank', rel: 'noopener noreferrer', text: 'What to do' })
    const node = element('p', { 'data-outage': outage.what }, ...Object.values(parts), ' ', runbook)
    const made = { node, runbook, parts }
    section.append(node)
    shown.set(key, made)
    return made
  }

  function show({ outages, health: { now } }) {
    const wanted = new Map(outages.filter(isNews).map((outage) => [keyOf(outage), outage]))
    for (const [key, { node }] of shown) {
      if (wanted.has(key)) continue
      node.remove()
      shown.delete(key)
    }
    for (const [key, outage] of wanted) {
      const { node, runbook, parts } = shown.get(key) ?? add(key, outage)
      node.className = `outage ${outage.isSevere ? 'bad' : 'warn'}`
      runbook.href = outage.runbook
      const said = sentence(outage, now)
      for (const [name, part] of Object.entries(parts)) setText(part, said[name] ?? '')
    }
    section.hidden = wanted.size === 0
  }

  return { hello: show, tick: show }
}

/** A gateway that restarted gives the same ids again. */
function keyOf({ id, what, upstream, traffic }) {
  return [id, what, upstream, traffic].join(' ')
}

/** Single pairs say nothing more where there is no connection to their upstream. */
function isNews({ what, upstream }, _index, outages) {
  if (what !== 'pairs') return true
  return !outages.some((other) => other.traffic === 'connections' && other.upstream === upstream)
}

function sentence(outage, now) {
  const since = ` since ${timeOf(outage.since, now)} (${span(now - outage.since)})`
  const served = outage.stillServed?.length > 0 ? ` Still served: ${listed(outage.stillServed)}.` : ''
  const failure = outage.lastFailure ? `; the last failure was ${outage.lastFailure}` : ''
  switch (outage.what) {
    case 'upstream':
      return {
        what: titleOf(outage),
        since,
        how: failure,
        now: `; ${refused(outage)}, ${nextTry(outage)}.`,
        served,
      }
    case 'pairs':
      return {
        what: outage.isSevere
          ? `All quotes that were asked for fail (${pairsOf(outage)})`
          : `Quotes of ${pairs(outage)} have failed`,
        since: outage.isSevere ? `,${since}` : since,
        how: failure,
        now: `; ${refused(outage)}, ${nextTry(outage)}.`,
        served,
      }
    case 'slow':
      return {
        what: `The ${names[outage.upstream] ?? outage.upstream} answers slowly`,
        since,
        how: `: its p95 of 10 min is ${milliseconds(outage.p95Ms)} ms, usually ${milliseconds(outage.usualP95Ms)} ms.`,
      }
    case 'store':
      return {
        what: 'The shared store has been down',
        since,
        how: failure,
        now: `; ${many(outage.requests, 'order')} forwarded that would have been refused as expired, it is tried again every second.`,
        served,
      }
    case 'clock':
      return clockSentence(outage, since)
    case 'trust-proxy':
      return {
        what: `${peers(outage)} sent a client-address header but ${outage.howMany === 1 ? 'is' : 'are'} not in TRUST_PROXY`,
        since,
        how: ': to the provider, all users behind it look like one',
        now: `; ${many(outage.requests, 'request')} so far.`,
      }
    case 'client-ip-header':
      return {
        what: otherHeader(outage),
        since,
        how: ': to the provider, all users of these requests look like one',
        now: `; ${many(outage.requests, 'request')} so far.`,
      }
    case 'unknown-orders':
      return {
        what: `${percent(outage.share, 0)} of the float orders of the last 30 min were forwarded as unknown`,
        since,
        how: usualText(outage),
        now: outage.requests > 0 ? `; ${count(outage.requests)} since then.` : '.',
      }
    default:
      return { what: outage.what, since }
  }
}

function titleOf({ upstream, traffic }) {
  const name = names[upstream] ?? upstream
  return traffic === 'connections'
    ? `There has been no connection to the ${name}`
    : `${kinds[traffic] ?? traffic} ${name} have failed`
}

function pairs({ names: named, howMany }) {
  const number = many(howMany, 'pair')
  return named.length === 0 ? number : `${number} (${some(named, howMany)})`
}

function peers({ names: named, howMany }) {
  if (named.length === 0) return many(howMany, 'peer')
  return howMany <= maxNames ? listed(named) : `${many(howMany, 'peer')} (${some(named, howMany)})`
}

function otherHeader(outage) {
  const verbs = outage.howMany === 1 ? 'is trusted and sends' : 'are trusted and send'
  return `${peers(outage)} ${verbs} ${listed(outage.headers)}, but CLIENT_IP_HEADER is ${outage.clientIpHeader}`
}

function some(named, howMany) {
  const brief = named.slice(0, maxNames).map((name) => (name.length > 40 ? `${name.slice(0, 40)}…` : name))
  return `${brief.join(', ')}${howMany > maxNames ? ', and more' : ''}`
}

/** Half of all orders is too much, even if it is usual. */
function usualText({ share, usualShare }) {
  return share > usualShare
    ? `, more than the usual ${percent(usualShare, 0)}`
    : ', which is more than half of them'
}

function refused({ requests }) {
  return `${many(requests, 'request')} refused meanwhile`
}

/** The next request tries once the breaker lets it. */
function nextTry({ retryInMs }) {
  if (retryInMs === undefined) return 'a request is trying now'
  return retryInMs === 0 ? 'the next request tries again' : `the next try is in ${span(retryInMs)}`
}

function clockSentence({ offsetMs }, since) {
  if (offsetMs === undefined)
    return {
      what: "The provider's clock is unknown",
      since,
      how: ': its answers have no Date that can be read, so quotes expire by our own clock.',
    }
  return {
    what: `The provider's clock is ${span(Math.abs(offsetMs))} ${offsetMs > 0 ? 'ahead of' : 'behind'} ours`,
    since,
    how: ': quotes expire by its clock, so check which of the two is wrong.',
  }
}

function timeOf(at, now) {
  const isOld = now - at > 86_400_000
  return isOld ? `${new Date(at).toLocaleDateString('en-GB')} ${clockTime(at)}` : clockTime(at)
}

const many = (number, what) => `${count(number)} ${what}${number === 1 ? '' : 's'}`
