import { clockTime, listed, many, span } from './format.js'
import { html, page } from './page.js'

/** Pairs and peers that are named. */
const maxNames = 5
const counted = {
  refused: ['request', 'refused meanwhile'],
  forwarded: ['order', 'forwarded meanwhile'],
  misplaced: ['request', 'so far'],
}

/** What is wrong, in the words of its event. The parts that change by the second are not read aloud again. */
export function view() {
  return page.latest.outages.filter(isNews).map((outage) => {
    const {
      id,
      what,
      upstream,
      traffic,
      name,
      says,
      lastFailure,
      stillServed = [],
    } = outage
    // A gateway that restarted gives the same ids again.
    const key = [id, what, upstream, traffic].join(' ')
    return html`<p key=${key} class="outage ${outage.isSevere ? 'bad' : 'warn'}" data-outage=${what}>
      <strong>${name}: ${says}</strong>
      <span>${namesText(outage)}</span>
      <span aria-live="off">, since ${sinceText(outage)}</span>
      <span>${lastFailure && `; the last failure was ${lastFailure}`}</span>
      <span aria-live="off">${requestsText(outage)}.</span>
      <span class="served">${stillServed.length > 0 && ` Still served: ${listed(stillServed)}.`}</span>
      ${' '}<a target="_blank" rel="noopener noreferrer" href=${outage.runbook}>What to do</a>
    </p>`
  })
}

/** Single pairs say nothing more where there is no connection to their upstream. */
function isNews({ what, upstream }, _index, outages) {
  if (what !== 'pairs') return true
  return !outages.some(
    (other) => other.traffic === 'connections' && other.upstream === upstream,
  )
}

/** None without full rights. */
function namesText({ names = [], howMany }) {
  if (names.length === 0) return ''
  const brief = names
    .slice(0, maxNames)
    .map((name) => (name.length > 40 ? `${name.slice(0, 40)}…` : name))
  return ` (${brief.join(', ')}${howMany > maxNames ? ', and more' : ''})`
}

function sinceText({ since }) {
  return `${clockTime(since)} (${span(Math.max(0, page.latest.health.now - since))})`
}

function requestsText({ concerned, requests, retryInMs }) {
  if (concerned === 'none') return ''
  const [what, how] = counted[concerned]
  const number = `; ${many(requests, what)} ${how}`
  if (concerned !== 'refused') return number
  const after =
    retryInMs === 0
      ? 'the next request tries again'
      : `the next try is in ${span(retryInMs)}`
  // The next request tries once the breaker lets it.
  return `${number}, ${retryInMs === undefined ? 'a request is trying now' : after}`
}
