import { copyableId } from './copy.js'
import { element, facts } from './dom.js'
import { milliseconds } from './format.js'

const sources = { provider: "the provider's", gateway: "the gateway's own", client: "the client's" }
const notSent = { breaker: 'the breaker was open', saturated: 'no connection became free' }
const partsOfTime = [
  { key: 'queueMs', name: 'queue', text: 'Waited for a connection' },
  { key: 'upstreamMs', name: 'upstream', text: 'Upstream, to the head of its answer' },
  { key: 'transferMs', name: 'transfer', text: 'Body of the answer' },
  { key: 'ownMs', name: 'own', text: 'The gateway itself' },
]

/** Who asked, what came of it, and where its time went. */
export function requestDetails(request) {
  const parts = partsOfTime.filter(({ key }) => request[key] !== null)
  return element(
    'div',
    { class: 'details' },
    parts.length > 1 ? bar(request, parts) : undefined,
    facts([
      ['Request', `${request.method} ${request.path}`],
      ['Route', request.route],
      ['Why', request.why || whyOf(request)],
      ['Error', sources[request.source]],
      ['Not sent', notSent[request.notSent]],
      ['Cache-Status', request.cacheStatus],
      ['Took', `${milliseconds(request.durationMs)} ms`],
      ...parts.map(({ key, text }) => [text, `${milliseconds(request[key])} ms`]),
      ['Upstream', request.ownMs === null ? 'waited for the call of another request' : ''],
      ['App-Name', request.application],
      ['Client', request.client],
      ['Request id', copyableId(request.requestId, { what: 'request id' })],
    ]),
  )
}

/** The facts below say the same in words. */
function bar(request, parts) {
  const node = element('div', { class: 'time-bar', 'aria-hidden': 'true' })
  for (const { key, name, text } of parts) {
    const piece = element('span', { class: name, title: text })
    piece.style.flexGrow = String(request[key])
    node.append(piece)
  }
  return node
}

function whyOf({ status, cacheStatus }) {
  if (status === 0) return 'The client left, or the answer broke off.'
  if (cacheStatus?.includes('; hit')) return 'Answered from memory; the upstream was not asked.'
  if (cacheStatus?.includes('collapsed')) return 'Waited for the same call as another request.'
  if (cacheStatus?.includes('stored')) return 'Not in memory: fetched, and kept until its expiry.'
  return ''
}
