import { clockTime, count, milliseconds, percent, reach } from './format.js'
import { html, Panel, page, Scroller, Table } from './page.js'

const maxEvents = 200
const callHeads = [
  'Traffic',
  'Calls/s, number',
  'Failed, number',
  'p50, number',
  'p95, number',
  'Last error',
]
const settingHeads = ['Name', 'Value', 'Source', 'Meaning, minor']

/** For each upstream and kind of traffic: how much, how well and how fast. */
export function upstreams() {
  const { upstreams: all, now } = page.shown.health
  const period = reach(all[0]?.traffic[0]?.seconds ?? 0)
  return html`<${Panel} id="upstreams" title="Upstreams" count=${period}>
    <${Table} of="upstreams" heads=${callHeads}>
      ${all.map((upstream) => upstreamRows(upstream, now))}
    <//>
  <//>`
}

function upstreamRows({ name, traffic, connections: { busy, idle, waiting } }, now) {
  return html`<tbody key=${name} data-upstream=${name}>
    <tr>
      <th scope="rowgroup">${name}</th>
      <td class="dim" colspan="5">${busy} busy, ${idle} idle, ${waiting} waiting</td>
    </tr>
    ${traffic.map((calls) => trafficRow(calls, traffic.length === 1 ? 'all' : calls.traffic, now))}
  </tbody>`
}

function trafficRow(
  { traffic, callsPerSecond, failedShare, p50Ms, p95Ms, notSent, lastError },
  title,
  now,
) {
  const last = lastError && `${lastError.what}, ${ago(lastError.at, now)}`
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

function ago(at, now) {
  const seconds = Math.max(0, Math.round((now - at) / 1_000))
  return seconds < 60 ? `${seconds} s ago` : clockTime(at)
}

let happened = []

export function hello({ history }) {
  happened = []
  tick(history)
}

export function tick({ events: added }) {
  for (const event of added)
    happened = [event, ...happened.filter((one) => !isReplaced(one, event))].slice(
      0,
      maxEvents,
    )
}

/** All that replace one event stand for it, and the page may have any of them. */
const isReplaced = ({ id, replaces = id }, event) => replaces === event.replaces

/** What happened to the gateway, newest first; also while no page was open. */
export function events() {
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

let wanted = ''
let isChangedOnly = false

export function settings() {
  const all = page.shown.settings
  const shown = all.filter(({ name, value, meaning, source }) => {
    if (isChangedOnly && source === 'default') return false
    return `${name} ${value} ${meaning}`.toLowerCase().includes(wanted)
  })
  const set = all.filter(({ source }) => source === 'environment')
  const filter = ({ target: { type, checked, value } }) => {
    if (type === 'checkbox') isChangedOnly = checked
    else wanted = value.trim().toLowerCase()
  }
  const tools = html`
    <label class="check"><input type="checkbox" data-role="changed" onChange=${filter} /> only those set</label>
    <input type="search" data-role="filter" placeholder="Filter" aria-label="Filter the settings" onInput=${filter} />`
  const said = `${set.length} of ${all.length} set`
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
