import { clockTime, listed, many, span } from './format.js'
import { html, leftOf, page } from './page.js'

/** Max names in a sentence. */
const maxNames = 5
/** The gateway's name for quotes that live on in its cache. */
const cached = 'cached quotes'
const counted = {
  refused: ['request', 'refused meanwhile'],
  forwarded: ['order', 'forwarded meanwhile'],
  misplaced: ['request', 'so far'],
}

/** In the words of the events. Screen readers skip parts that change every second. */
export function view() {
  return page.latest.outages.map((outage) => {
    const { id, what, upstream, text, since } = outage
    // Ids begin again when the gateway restarts.
    const key = [id, what, upstream].join(' ')
    return html`<p key=${key} class="outage ${outage.isSevere ? 'bad' : 'warn'}" data-outage=${what}>
      <strong>${text}</strong>
      <span>${namesText(outage)} since ${clockTime(since)}.</span>
      <span class="served">${servedText(outage)}</span>
      <span aria-live="off">${requestsText(outage)}</span>
      ${' '}<a target="_blank" rel="noopener noreferrer" href=${outage.runbook}>What to do</a>
    </p>`
  })
}

function servedText({ stillServed = [] }) {
  const working = stillServed.filter((name) => name !== cached)
  const works = listed(working)
  return [
    working.length > 0 && ` ${works[0].toUpperCase()}${works.slice(1)} work.`,
    working.length < stillServed.length && ` Still served: ${cached}.`,
  ]
}

/** Only full rights show names. */
function namesText({ names = [], howMany }) {
  if (names.length === 0) return ''
  const brief = names
    .slice(0, maxNames)
    .map((name) => (name.length > 40 ? `${name.slice(0, 40)}…` : name))
  return ` (${brief.join(', ')}${howMany > maxNames ? ', and more' : ''})`
}

function requestsText({ concerned, requests, retryInMs }) {
  if (concerned === 'none') return ''
  const [what, how] = counted[concerned]
  const number = ` ${many(requests, what)} ${how}`
  if (concerned !== 'refused') return `${number}.`
  const after =
    retryInMs === 0
      ? 'the next request tries again'
      : `the next try is in ${span(leftOf(retryInMs))}`
  return `${number}, ${retryInMs === undefined ? 'a request is trying now' : after}.`
}
