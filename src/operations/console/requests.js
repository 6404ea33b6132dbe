import { copyableId, tailOf } from './controls.js'
import { clockTime, milliseconds, statusClass } from './format.js'
import { facts, html, Panel, page, Table } from './page.js'
import { openButton, openingRow, withOpen } from './rows.js'

const heads = [
  'Time, at',
  'Request',
  'Status',
  'Cache or error',
  'ms, number last',
  'Request id, minor',
]
const sources = {
  provider: "the provider's",
  gateway: "the gateway's own",
  client: "the caller's",
}
const notSentWhy = {
  breaker: 'the breaker was open',
  saturated: 'no connection became free',
}
const partsOfTime = [
  { key: 'queueMs', background: 'var(--warn)', text: 'Waited for a connection' },
  {
    key: 'upstreamMs',
    background: 'var(--accent)',
    text: 'Upstream, to the head of its answer',
  },
  { key: 'transferMs', background: 'var(--accent-half)', text: 'Body of the answer' },
  { key: 'ownMs', background: 'var(--dim)', text: 'The gateway itself' },
]

const filters = { filter: '', area: '', source: '', status: '' }

export function view() {
  if (!page.isFull) return undefined
  const requests = withOpen('requests', page.shown.lastRequests)
  const wanted = requests.filter(isWanted)
  const some = wanted.length < requests.length ? `${wanted.length} of ` : ''
  const count = requests.length > 0 ? `${some}the last ${requests.length}` : ''
  const empty =
    requests.length > 0 ? 'No request here matches the filters.' : 'No request yet.'
  return html`<${Panel} id="requests" title="Live requests" kind="wide" count=${count} tools=${tools()}>
    <${Table} of="requests" kind="tall" heads=${heads} empty=${wanted.length === 0 && empty}>
      <tbody>${wanted.flatMap(rowOf)}</tbody>
    <//>
  <//>`
}

function tools() {
  const filter = ({ target: { dataset, value } }) =>
    (filters[dataset.role] = value.trim().toLowerCase())
  return html`<div class="filters flow">
    <select data-role="area" aria-label="Area of the requests" onInput=${filter}>
      <option value="">All areas</option><option value="quote">Quotes</option>
      <option value="float-order">Float orders</option><option value="order">Other orders</option>
      <option value="swap">Rest of swap</option><option value="payments">Payments</option>
      <option value="webhooks">Webhooks</option><option value="none">No area</option>
    </select>
    <select data-role="source" aria-label="Source of the error" onInput=${filter}>
      <option value="">Any outcome</option><option value="any">All errors</option>
      <option value="provider">Provider's errors</option><option value="gateway">Gateway's errors</option>
      <option value="client">Callers' errors</option>
    </select>
    <select data-role="status" aria-label="Status of the requests" onInput=${filter}>
      <option value="">Any status</option><option value="2">2xx</option><option value="3">3xx</option>
      <option value="4">4xx</option><option value="5">5xx</option><option value="0">broken off</option>
    </select>
    <input type="search" data-role="filter" placeholder="Filter" aria-label="Filter the requests" onInput=${filter} />
  </div>`
}

function isWanted(request) {
  const { filter, area, source, status } = filters
  if (area !== '' && request.route !== area) return false
  if (status !== '' && Math.floor(request.status / 100) !== Number(status)) return false
  if (source === 'any' ? !request.source : !['', request.source].includes(source))
    return false
  const { method, path, route, application, requestId } = request
  const words = [
    method,
    path,
    statusText(request),
    route,
    application,
    requestId,
    sourceText(request),
  ]
  return words.join(' ').toLowerCase().includes(filter)
}

function rowOf(request) {
  const { at, method, path, status, durationMs, requestId } = request
  const cells = html`
    <td class="dim at">${clockTime(at)}</td>
    <td class="path cut">
      ${openButton('requests', request, path, html`<span class="dim method">${method}</span>`, ` ${path || '(unreadable)'}`)}
    </td>
    <td class="status ${statusClass(status)}">${statusText(request)}</td>
    <td>${chip(request)}</td>
    <td class="number last">${milliseconds(durationMs)}</td>
    <td class="mono dim minor" title=${requestId}>${tailOf(requestId)}</td>`
  const attributes = { 'data-request': requestId }
  return openingRow('requests', request, {
    columns: 6,
    cells,
    attributes,
    describe: () => details(request),
  })
}

const statusText = ({ status }) => (status === 0 ? 'broken off' : String(status))
const sourceText = ({ source, notSent }) =>
  notSent ? `not sent: ${notSent}` : (source ?? '')

/** An error shows its source: the provider, or the gateway in its place. */
function chip(request) {
  const { source, status, cacheStatus } = request
  if (!source && !cacheStatus) return undefined
  const kind = !source
    ? (cacheKind(cacheStatus) ?? 'bypass')
    : `status ${statusClass(status)}`
  return html`<span class="chip ${kind}" title=${cacheStatus}>${source ? sourceText(request) : kind}</span>`
}

/** What Cache-Status says; undefined if the cache had no part. */
export function cacheKind(cacheStatus) {
  if (cacheStatus.includes('; hit')) return 'hit'
  if (cacheStatus.includes('; fwd=stale')) return 'old'
  if (cacheStatus.includes('collapsed')) return 'collapsed'
  return cacheStatus.includes('stored') ? 'miss' : undefined
}

function details(request) {
  const parts = partsOfTime.filter(({ key }) => request[key] !== undefined)
  const list = facts([
    ['Request', `${request.method} ${request.path}`],
    ['Route', request.route],
    ['Why', request.why || whyOf(request)],
    ['Error', sources[request.source]],
    ['Not sent', notSentWhy[request.notSent]],
    ['Cache-Status', request.cacheStatus],
    ['Took', `${milliseconds(request.durationMs)} ms`],
    ...parts.map(({ key, text }) => [text, `${milliseconds(request[key])} ms`]),
    [
      'Upstream',
      request.ownMs === undefined ? 'waited for the call of another request' : '',
    ],
    ['App-Name', request.application],
    ['Address', request.client],
    ['Request id', copyableId(request.requestId, { what: 'request id' })],
  ])
  // The list says the same.
  const bar = html`<div class="time-bar" aria-hidden="true">${parts.map(
    ({ key, background, text }) => {
      const style = { flex: `${request[key]} 0`, background }
      return html`<span title=${text} style=${style}></span>`
    },
  )}</div>`
  return html`<div class="stack">${parts.length > 1 && bar}${list}</div>`
}

function whyOf({ status, cacheStatus }) {
  if (status === 0) return 'The caller left, or the answer broke off.'
  const whys = {
    hit: 'Answered from memory; the upstream was not asked.',
    old: 'No younger quote could be fetched: answered from memory.',
    collapsed: 'Waited for the same call as another request.',
    miss: 'Not in memory: fetched, and kept until its expiry.',
  }
  return whys[cacheKind(cacheStatus ?? '')] ?? ''
}
