import { element, facts, part, setText } from './dom.js'
import { clockTime, milliseconds, statusClass } from './format.js'

const maxShown = 200

/** The requests, newest first; a click on a row opens its details. */
export function createRequests({ isFull }) {
  const panel = document.getElementById('requests')
  const body = panel.querySelector('tbody')
  const filter = part(panel, 'filter')
  const empty = part(panel, 'empty')
  let rows = []
  let skipped = 0
  filter.addEventListener('input', () => {
    for (const row of rows) sift(row)
  })

  function sift({ node, detail, text }) {
    node.hidden = !text.includes(filter.value.trim().toLowerCase())
    if (detail !== undefined) detail.hidden = node.hidden
  }

  function add(request) {
    const open = element(
      'button',
      { type: 'button', class: 'open', 'aria-expanded': 'false', title: request.path },
      element('span', { class: 'method', text: request.method }),
      ` ${request.path || '(unreadable)'}`,
    )
    const status = request.status === 0 ? 'broken off' : String(request.status)
    const node = element(
      'tr',
      { 'data-request': request.requestId },
      element('td', { class: 'dim at', text: clockTime(request.at) }),
      element('td', { class: 'path' }, open),
      element('td', { class: `status ${statusClass(request.status)}`, text: status }),
      element('td', {}, cacheChip(request)),
      element('td', { class: 'number last', text: milliseconds(request.durationMs) }),
      element('td', { class: 'mono dim minor', text: request.requestId.slice(0, 8) }),
    )
    const text = `${request.method} ${request.path} ${status} ${request.route} ${request.application} ${request.requestId}`
    const row = { node, detail: undefined, text: text.toLowerCase() }
    open.addEventListener('click', () => toggle(row, request, open))
    rows.unshift(row)
    body.prepend(node)
    sift(row)
  }

  function toggle(row, request, open) {
    if (row.detail === undefined) {
      row.detail = element('tr', { class: 'detail' }, element('td', { colspan: '6' }, describe(request)))
      row.node.after(row.detail)
    } else {
      row.detail.remove()
      row.detail = undefined
    }
    open.setAttribute('aria-expanded', String(row.detail !== undefined))
  }

  function trim() {
    for (const { node, detail } of rows.slice(maxShown)) {
      node.remove()
      detail?.remove()
    }
    rows = rows.slice(0, maxShown)
  }

  function tell() {
    empty.hidden = rows.length > 0
    const more = skipped > 0 ? `; ${skipped.toLocaleString('en')} more were counted, not listed` : ''
    setText(part(panel, 'count'), rows.length > 0 ? `the last ${rows.length}${more}` : '')
    setText(
      empty,
      isFull()
        ? 'No requests since you opened this page.'
        : 'Log in with the ADMIN_TOKEN to see details of requests.',
    )
  }

  return {
    hello({ requests }) {
      for (const { node, detail } of rows) {
        node.remove()
        detail?.remove()
      }
      rows = []
      skipped = 0
      for (const request of requests) add(request)
      tell()
    },
    tick(frame) {
      for (const request of frame.requests) add(request)
      if (isFull()) skipped += frame.skipped
      trim()
      tell()
    },
  }
}

function cacheChip({ cacheStatus }) {
  if (cacheStatus === null) return null
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

function describe(request) {
  return facts([
    ['Request', `${request.method} ${request.path}`],
    ['Route', request.route],
    ['Why', request.why || whyOf(request)],
    ['Cache-Status', request.cacheStatus],
    ['Took', `${milliseconds(request.durationMs)} ms`],
    [
      'Upstream',
      request.upstreamMs === null ? '' : `began its answer after ${milliseconds(request.upstreamMs)} ms`,
    ],
    ['App-Name', request.application],
    ['Client', request.client],
    ['Request id', request.requestId],
  ])
}

function whyOf({ status, cacheStatus }) {
  if (status === 0) return 'The client left, or the answer broke off.'
  if (cacheStatus?.includes('; hit')) return 'Answered from memory; the upstream was not asked.'
  if (cacheStatus?.includes('collapsed')) return 'Shared another request’s upstream call.'
  if (cacheStatus?.includes('stored')) return 'Not in memory: fetched, and kept until its expiry.'
  return ''
}
