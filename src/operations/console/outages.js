import { element, setText } from './dom.js'
import { clockTime, count, listed, percent, span } from './format.js'

const kinds = {
  quotes: 'Quotes of the',
  orders: 'Orders to the',
  rest: 'Requests other than quotes and orders to the',
}
const names = { swap: 'swap API', payments: 'payments API', webhooks: 'receiver of webhooks' }

/** One sentence for each thing that is wrong. The parts that change by the second are not read aloud again. */
export function createOutages() {
  const section = document.getElementById('outages')
  const shown = new Map()

  function add(outage) {
    const parts = {
      what: element('strong'),
      since: element('span', { 'aria-live': 'off' }),
      how: element('span'),
      now: element('span', { 'aria-live': 'off' }),
      served: element('span', { class: 'served' }),
    }
    const node = element('p', { 'data-outage': outage.what }, ...Object.values(parts))
    const made = { node, ...parts }
    section.append(node)
    shown.set(outage.id, made)
    return made
  }

  function show({ outages, health: { now } }) {
    for (const [id, { node }] of shown) {
      if (outages.some((outage) => outage.id === id)) continue
      node.remove()
      shown.delete(id)
    }
    for (const outage of outages) {
      const { node, ...parts } = shown.get(outage.id) ?? add(outage)
      node.className = `outage ${outage.isSevere ? 'bad' : 'warn'}`
      const said = sentence(outage, now)
      for (const [name, part] of Object.entries(parts)) setText(part, said[name] ?? '')
    }
    section.hidden = outages.length === 0
  }

  return { hello: show, tick: show }
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
        what: `Quotes of ${pairs(outage)} have failed`,
        since,
        how: failure,
        now: `; ${refused(outage)}, ${nextTry(outage)}.`,
        served,
      }
    case 'store':
      return {
        what: 'The shared store has been down',
        since,
        how: failure,
        now: `; ${many(outage.requests, 'order')} forwarded that would have been refused as expired.`,
        served,
      }
    case 'clock':
      return clockSentence(outage, since)
    case 'trust-proxy':
      return {
        what: `${outage.names.length > 0 ? listed(outage.names.slice(0, 5)) : many(outage.howMany, 'peer')} sent a client-address header but ${outage.howMany === 1 ? 'is' : 'are'} not in TRUST_PROXY`,
        since,
        how: ': to the provider, all users behind it look like one',
        now: `; ${many(outage.requests, 'request')} so far.`,
      }
    case 'unknown-orders':
      return {
        what: `${percent(outage.share, 0)} of the float orders of the last 30 min were forwarded as unknown`,
        since,
        how: `, more than the usual ${percent(outage.usualShare, 0)}`,
        now: `; ${count(outage.requests)} since then.`,
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
  if (named.length === 0) return number
  const more = howMany > 5 ? ', and more' : ''
  return `${number} (${named.slice(0, 5).join(', ')}${more})`
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
