import { element, part, setText } from './dom.js'
import { clockTime, count, milliseconds, percent, reach } from './format.js'

/** For each upstream and kind of traffic: how much, how well and how fast. */
export function createUpstreams() {
  const panel = document.getElementById('upstreams')
  const table = panel.querySelector('table')
  const bodies = new Map()

  function bodyOf({ name, traffic }) {
    const known = bodies.get(name)
    if (known !== undefined) return known
    const connections = element('td', { class: 'dim', colspan: '5' })
    const body = element(
      'tbody',
      { 'data-upstream': name },
      element('tr', {}, element('th', { scope: 'rowgroup', text: name }), connections),
    )
    const rows = new Map(traffic.map(({ traffic: kind }) => [kind, rowOf(kind, traffic.length === 1)]))
    body.append(...[...rows.values()].map(({ node }) => node))
    table.append(body)
    const made = { body, connections, rows }
    bodies.set(name, made)
    return made
  }

  function show({ health: { upstreams, now } }) {
    // A gateway that restarted may have others.
    for (const [name, { body }] of bodies) {
      if (upstreams.some((upstream) => upstream.name === name)) continue
      body.remove()
      bodies.delete(name)
    }
    for (const upstream of upstreams) {
      const { connections, rows } = bodyOf(upstream)
      const { busy, idle, waiting } = upstream.connections
      setText(connections, `${busy} busy, ${idle} idle, ${waiting} waiting`)
      for (const calls of upstream.traffic) fill(rows.get(calls.traffic), calls, now)
    }
    setText(part(panel, 'period'), reach(upstreams[0]?.traffic[0]?.seconds ?? 0))
  }
  return { hello: show, tick: show }
}

function rowOf(kind, isOnly) {
  const cells = ['rate', 'failed', 'p50', 'p95'].map(() => element('td', { class: 'number' }))
  const error = element('td', { class: 'error-text' })
  const title = isOnly ? 'all' : kind
  return {
    node: element(
      'tr',
      { 'data-traffic': kind },
      element('th', { scope: 'row', text: title }),
      ...cells,
      error,
    ),
    cells,
    error,
  }
}

function fill({ cells: [rate, failed, p50, p95], error }, calls, now) {
  setText(
    rate,
    calls.callsPerSecond < 10 ? String(calls.callsPerSecond) : count(Math.round(calls.callsPerSecond)),
  )
  setText(failed, calls.failedShare === null ? '–' : percent(calls.failedShare, 0))
  failed.className = `number ${calls.failedShare > 0 ? 'bad' : ''}`
  setText(p50, milliseconds(calls.p50Ms))
  setText(p95, milliseconds(calls.p95Ms))
  const notSent = calls.notSent > 0 ? `${count(calls.notSent)} not sent` : ''
  const last = calls.lastError === null ? '' : `${calls.lastError.what}, ${since(calls.lastError.at, now)}`
  setText(error, [last, notSent].filter(Boolean).join('; '))
}

function since(at, now) {
  const seconds = Math.max(0, Math.round((now - at) / 1_000))
  return seconds < 60 ? `${seconds} s ago` : clockTime(at)
}
