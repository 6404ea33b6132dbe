import { tailOf } from './copy.js'
import { element, part, setText } from './dom.js'
import { clockTime, milliseconds, statusClass } from './format.js'
import { createOpenRow, holdOpenRow } from './open-row.js'
import { requestDetails } from './request-details.js'

const maxShown = 200
/** As many as the gateway keeps when no page is open. */
const maxFailed = 50
const columns = 6

/** The last requests and the last failed ones, newest first. */
export function createRequests({ isFull }) {
  const panel = document.getElementById('requests')
  const scroller = panel.querySelector('.scroll')
  const body = panel.querySelector('tbody')
  const filters = {
    text: part(panel, 'filter'),
    area: part(panel, 'area'),
    source: part(panel, 'source'),
    status: part(panel, 'status'),
  }
  let rows = []
  let skipped = 0
  /** The next tick may tell again of those that failed in the second in which the page connected. */
  let failedBefore = new Set()
  for (const filter of Object.values(filters)) {
    filter.addEventListener('input', () => {
      for (const row of rows) sift(row)
      tell()
    })
  }

  function isWanted({ request, text }) {
    const { area, source, status } = filters
    if (area.value !== '' && request.route !== area.value) return false
    if (status.value !== '' && Math.floor(request.status / 100) !== Number(status.value)) return false
    if (source.value === 'any' ? request.source === null : !['', request.source].includes(source.value))
      return false
    return text.includes(filters.text.value.trim().toLowerCase())
  }

  function sift(row) {
    row.isWanted = isWanted(row)
    row.shown.hidden = !row.isWanted
  }

  function add(request) {
    const button = element(
      'button',
      { type: 'button', class: 'open', title: request.path },
      element('span', { class: 'method', text: request.method }),
      ` ${request.path || '(unreadable)'}`,
    )
    const status = request.status === 0 ? 'broken off' : String(request.status)
    const node = element(
      'tr',
      { 'data-request': request.requestId },
      element('td', { class: 'dim at', text: clockTime(request.at) }),
      element('td', { class: 'path' }, button),
      element('td', { class: `status ${statusClass(request.status)}`, text: status }),
      element('td', {}, sourceChip(request) ?? cacheChip(request)),
      element('td', { class: 'number last', text: milliseconds(request.durationMs) }),
      element('td', { class: 'mono dim minor', title: request.requestId, text: tailOf(request.requestId) }),
    )
    const text = `${request.method} ${request.path} ${status} ${request.route} ${request.application} ${request.requestId} ${sourceText(request)}`
    const describe = () => requestDetails(request)
    const shown = createOpenRow({ row: node, button, columns, describe })
    const row = { request, shown, text: text.toLowerCase(), isWanted: true }
    rows.unshift(row)
    body.prepend(node)
    sift(row)
  }

  /** Failed requests stay longer than others, and so does what is being read. */
  function trim() {
    let failed = 0
    rows = rows.filter(({ request, shown }, index) => {
      if (request.source !== null) failed += 1
      const isOneOfFailed = request.source !== null && failed <= maxFailed
      if (index < maxShown || isOneOfFailed || shown.isOpen) return true
      shown.remove()
      return false
    })
  }

  function tell() {
    const wanted = rows.filter(({ isWanted }) => isWanted).length
    const more = skipped > 0 ? `; ${skipped.toLocaleString('en')} more were counted, not listed` : ''
    const some = wanted < rows.length ? `${wanted} of ` : ''
    setText(part(panel, 'count'), rows.length > 0 ? `${some}the last ${rows.length}${more}` : '')
    const empty = part(panel, 'empty')
    empty.hidden = wanted > 0
    setText(
      empty,
      rows.length > 0
        ? 'No request here matches the filters.'
        : 'No requests since you opened this page, and none that failed before.',
    )
  }

  return {
    hello({ requests, failures }) {
      for (const { shown } of rows) shown.remove()
      rows = []
      skipped = 0
      failedBefore = new Set(failures.map(({ number }) => number))
      const all = new Map([...requests, ...failures].map((request) => [request.number, request]))
      for (const request of [...all.values()].sort((left, right) => left.number - right.number)) add(request)
      tell()
    },
    tick(frame) {
      holdOpenRow(scroller, () => {
        for (const request of frame.requests) if (!failedBefore.has(request.number)) add(request)
      })
      if (isFull()) skipped += frame.skipped
      trim()
      tell()
    },
  }
}

function cacheChip({ cacheStatus }) {
  if (cacheStatus === null) return undefined
  const brief = cacheStatus.replace(/^quotegate; /, '')
  const kind = /^hit/.test(brief)
    ? 'hit'
    : /collapsed/.test(brief)
      ? 'collapsed'
      : /stored/.test(brief)
        ? 'miss'
        : 'bypass'
  return element('span', { class: `chip ${kind === 'hit' ? 'hit' : ''}`, text: kind, title: cacheStatus })
}

/** An error says whose it is. An answer of the provider and one that is made here in its place differ. */
function sourceChip(request) {
  if (request.source === null) return undefined
  const { status, cacheStatus } = request
  return element('span', {
    class: `chip status ${statusClass(status)}`,
    text: sourceText(request),
    title: cacheStatus ?? undefined,
  })
}

function sourceText({ source, notSent }) {
  return notSent ? `not sent: ${notSent}` : (source ?? '')
}
