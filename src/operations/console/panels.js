import { read } from './connection.js'
import { clockTime, count, milliseconds, percent, reach } from './format.js'
import { html, Panel, page, redraw, Scroller, sayError, Table } from './page.js'

const callHeads = [
  'Traffic',
  'Calls/s, number',
  'Failed, number',
  'p50, number',
  'p95, number',
  'Last error',
]
const settingHeads = ['Name', 'Value', 'Source', 'Meaning, minor']

export function upstreams() {
  const { upstreams: all } = page.shown
  const period = reach(all[0]?.traffic[0]?.seconds ?? 0)
  return html`<${Panel} id="upstreams" title="Upstreams" count=${period}>
    <${Table} of="upstreams" heads=${callHeads}>
      ${all.map(upstreamRows)}
    <//>
  <//>`
}

function upstreamRows({ name, traffic, connections: { busy, idle, waiting } }) {
  return html`<tbody key=${name} data-upstream=${name}>
    <tr>
      <th scope="rowgroup">${name}</th>
      <td class="dim" colspan="5">${busy} busy, ${idle} idle, ${waiting} waiting</td>
    </tr>
    ${traffic.map((calls) => trafficRow(calls, traffic.length === 1 ? 'all' : calls.traffic))}
  </tbody>`
}

function trafficRow(
  { traffic, callsPerSecond, failedShare, p50Ms, p95Ms, notSent, lastError },
  title,
) {
  const last = lastError && `${lastError.what}, ${ago(lastError.at)}`
  const errors = [last, notSent > 0 && `${count(notSent)} not sent`].filter(Boolean)
  return html`<tr key=${traffic} data-traffic=${traffic}>
    <th scope="row">${title}</th>
    <td class="number">${callsPerSecond < 10 ? callsPerSecond : count(Math.round(callsPerSecond))}</td>
    <td class="number ${failedShare > 0 ? 'bad' : ''}">${failedShare === null ? '–' : percent(failedShare, 0)}</td>
    <td class="number">${milliseconds(p50Ms)}</td>
    <td class="number">${milliseconds(p95Ms)}</td>
    <td><small>${errors.join('; ')}</small></td>
  </tr>`
}

function ago(at) {
  const now = page.shown.now + page.now - page.shownAt
  const seconds = Math.max(0, Math.round((now - at) / 1_000))
  return seconds < 60 ? `${seconds} s ago` : clockTime(at)
}

/** Events, newest first, also from before the page was open. */
export function events() {
  const { events: happened } = page.shown
  const items = happened.map(({ id, at, tone, text }) => {
    const time = html`<time class="dim" datetime=${new Date(at).toISOString()}>${clockTime(at)}</time>`
    return html`<li key=${id} data-event=${id}>
      ${time}<span class="dot ${tone}" aria-hidden="true"></span><span>${text}</span>
    </li>`
  })
  return html`<${Panel} id="events" title="Events" kind="wide" count="the last ${happened.length}">
    <${Scroller} of="events"><ol class="events">${items}</ol><//>
  <//>`
}

/** Settings change only at a restart. */
let known = []

export async function readSettings() {
  known = await read('settings').catch((error) => {
    sayError(error)
    return []
  })
  redraw()
}

let wanted = ''
let isChangedOnly = false

export function settings() {
  const shown = known.filter(({ name, value, meaning, source }) => {
    if (isChangedOnly && source === 'default') return false
    return `${name} ${value} ${meaning}`.toLowerCase().includes(wanted)
  })
  const set = known.filter(({ source }) => source === 'environment')
  const filter = ({ target: { type, checked, value } }) => {
    if (type === 'checkbox') isChangedOnly = checked
    else wanted = value.trim().toLowerCase()
  }
  const tools = html`
    <label class="check"><input type="checkbox" data-role="changed" onChange=${filter} /> only those set</label>
    <input type="search" data-role="filter" placeholder="Filter" aria-label="Filter the settings" onInput=${filter} />`
  const said = `${set.length} of ${known.length} set`
  return html`<${Panel} id="settings" title="Effective settings" count=${said} tools=${tools}>
    <${Table} of="settings" heads=${settingHeads}><tbody>${shown.map(settingRow)}</tbody><//>
  <//>`
}

function settingRow({ name, value, source, meaning }) {
  return html`<tr key=${name}>
    <th scope="row" class="mono">${name}</th>
    <td class="mono ${source === 'environment' ? 'set' : ''}">${value === '' ? 'none' : value}</td>
    <td class="dim">${source}</td>
    <td class="dim minor">${meaning}</td>
  </tr>`
}
