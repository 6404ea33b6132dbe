import { copyableId, tailOf } from './copy.js'
import { element, setText, visible } from './dom.js'
import { bytes, count, pairsOf, span } from './format.js'

/** The line at the top: the gateway's mode, version and state, and the state of its upstreams. */
export function createHeader() {
  const mode = document.getElementById('mode')
  const version = document.getElementById('version')
  const list = document.getElementById('health')
  const items = new Map()
  /** What this frame has. */
  let current = new Set()

  function item(key) {
    let found = items.get(key)
    if (found === undefined) {
      found = {
        dot: element('span', { class: 'dot', 'aria-hidden': 'true' }),
        name: element('span'),
        value: element('span', { class: 'dim' }),
        trace: element('span'),
      }
      list.append(element('li', { 'data-item': key }, found.dot, found.name, found.value, found.trace))
      items.set(key, found)
    }
    return found
  }

  function diskChip({
    appended,
    waiting,
    bytes: size,
    awaySinceMs,
    syncedAtMs,
    restored,
    skipped,
    setAside,
  }) {
    return {
      name: `disk${awaySinceMs === null ? '' : ': not written'}`,
      value: `${counted(appended, 'record')} appended, ${count(waiting)} waiting, ${bytes(size)}`,
      tone: awaySinceMs === null ? (skipped + setAside > 0 ? 'warn' : 'good') : 'bad',
      title:
        `The journal in STATE_DIRECTORY. Last sync ${timeOf(syncedAtMs)}; restored at the start: ${count(restored)}, ` +
        `skipped: ${count(skipped)}, files set aside: ${count(setAside)}${sinceText(awaySinceMs)}`,
    }
  }

  function streamChip({ appended, waiting, behind, skipped, awaySinceMs }) {
    return {
      name: `shared journal${awaySinceMs === null ? '' : ': away'}`,
      value: `${counted(appended, 'record')} appended, ${count(waiting)} waiting, behind by ${count(behind)}`,
      tone: awaySinceMs === null ? (skipped > 0 ? 'warn' : 'good') : 'bad',
      title: `What the replicas tell each other by VALKEY_URL. Skipped: ${count(skipped)}${sinceText(awaySinceMs)}`,
    }
  }

  const timeOf = (ms) => new Date(ms).toLocaleTimeString()
  const sinceText = (ms) => (ms === null ? '' : `; away since ${timeOf(ms)}`)

  function slowestChip({ area, durationMs, traceId, requestId }) {
    const title = requestId === '' ? '' : `request ${requestId}`
    return { name: 'slowest in 60 s', value: `${span(durationMs)}, ${area}`, tone: '', title, traceId }
  }

  function set(key, { name, value, tone, title, traceId = null }) {
    current.add(key)
    const { dot, name: nameNode, value: valueNode, trace } = item(key)
    dot.className = `dot ${tone}`
    setText(nameNode, name)
    setText(valueNode, value)
    nameNode.parentElement.title = visible(title ?? '')
    if (trace.dataset.id === String(traceId)) return
    trace.dataset.id = String(traceId)
    const shown = traceId && copyableId(traceId, { what: 'trace id', text: tailOf(traceId) })
    trace.replaceChildren(...(shown ? [shown] : []))
  }

  function upstreamText({ breakers, inFlight, sandbox }, pairs, coolDowns) {
    const troubles = breakers.filter(({ state }) => state !== 'closed').map(breakerText)
    if (coolDowns !== undefined) troubles.push(coolDowns)
    if (pairs !== undefined) troubles.push(pairsText(pairs))
    if (troubles.length > 0) return troubles.join('; ')
    return `${sandbox ? 'sandbox, ' : ''}breakers closed${inFlight > 0 ? `, ${inFlight} in flight` : ''}`
  }

  function breakerText({ name, state, retryAfterMs }) {
    return state === 'open' ? `${name} stopped, next try in ${span(retryAfterMs)}` : `${name}: trying again`
  }

  const pairsText = (pairs) =>
    pairs.isSevere ? `all quotes fail (${pairsOf(pairs)})` : `${counted(pairs.howMany, 'pair')} stopped`

  /** The provider answered 429; undefined if it has not. */
  function coolDownText({ clients, longestLeftMs }) {
    if (clients === 0) return undefined
    return `429: quotes of ${counted(clients, 'client')} not requested for ${span(longestLeftMs)} at most`
  }

  const counted = (number, what) => `${count(number)} ${what}${number === 1 ? '' : 's'}`

  /** Red if anything but single pairs is stopped. */
  function upstreamTone({ breakers }, pairs, coolDowns) {
    const states = breakers.map(({ state }) => state)
    if (states.includes('open') || pairs?.isSevere) return 'bad'
    return states.includes('half-open') || pairs !== undefined || coolDowns !== undefined ? 'warn' : 'good'
  }

  function clockText({ estimateMs, lowMs, unknown }) {
    if (unknown) return { value: 'unknown: its answers have no Date', tone: 'warn' }
    if (lowMs === null) return { value: 'not known yet', tone: '' }
    if (estimateMs === 0) return { value: 'agrees with ours', tone: 'good' }
    const side = estimateMs > 0 ? 'ahead' : 'behind'
    return {
      value: `${span(Math.abs(estimateMs))} ${side}`,
      tone: Math.abs(estimateMs) > 2_000 ? 'bad' : 'warn',
    }
  }

  function show({ health, outages }) {
    current = new Set()
    setText(mode, health.mode)
    mode.className = `badge ${health.mode.toLowerCase()}`
    setText(version, `v${health.version}`)
    set('ready', {
      name: health.ready ? 'ready' : 'not ready',
      value: `up ${span(health.uptimeMs)}`,
      tone: health.ready ? 'good' : 'bad',
    })
    for (const upstream of health.upstreams) {
      const coolDowns = upstream.name === 'swap' ? coolDownText(health.coolDowns) : undefined
      // Out of the same outage as the sentence below, so that both say the same number.
      const pairs = outages.find((outage) => outage.what === 'pairs' && outage.upstream === upstream.name)
      set(`upstream-${upstream.name}`, {
        name: upstream.name,
        value: upstreamText(upstream, pairs, coolDowns),
        tone: upstreamTone(upstream, pairs, coolDowns),
        title: `At most ${upstream.connectionsMost} connections, and ${upstream.queueMost} that wait for one`,
      })
    }
    set('store', {
      name: `store: ${health.store.kind}${health.store.up ? '' : ', down'}`,
      value: `${counted(health.cache.entries, 'quote')}, ${bytes(health.cache.bytes)}; ledger ${count(health.ledger.entries)}`,
      tone: health.store.up ? 'good' : 'bad',
      title: health.store.up
        ? ''
        : 'VALKEY_URL does not answer: this replica works on its own, with its own memory',
    })
    if (health.journal.disk !== null) set('disk', diskChip(health.journal.disk))
    if (health.journal.stream !== null) set('stream', streamChip(health.journal.stream))
    if (health.slowest !== null) set('slowest', slowestChip(health.slowest))
    const { lowMs, highMs } = health.clock
    set('clock', {
      name: "provider's clock",
      ...clockText(health.clock),
      title:
        lowMs === null ? '' : `It is between ${Math.round(lowMs)} and ${Math.round(highMs)} ms ahead of ours`,
    })
    for (const [
      key,
      {
        name: { parentElement },
      },
    ] of items) {
      if (current.has(key)) continue
      parentElement.remove()
      items.delete(key)
    }
  }
  return { hello: show, tick: show }
}
