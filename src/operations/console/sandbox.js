import { act } from './connection.js'
import { percent, span } from './format.js'
import { html, Panel, page, redraw, sayError } from './page.js'

const ms = (value) => `${Math.round(value)} ms`
const sliders = [
  { key: 'latencyMs', label: 'Latency', max: 3_000, step: 50, say: ms },
  {
    key: 'errorRate',
    label: 'Errors (503)',
    max: 1,
    step: 0.05,
    say: (value) => percent(value, 0),
  },
  {
    key: 'resetRate',
    label: 'Resets',
    max: 1,
    step: 0.05,
    say: (value) => percent(value, 0),
  },
  {
    key: 'quoteLifetimeMs',
    label: 'Quote lifetime',
    min: 1_000,
    max: 120_000,
    step: 1_000,
    say: span,
  },
  {
    key: 'clockOffsetMs',
    label: "Provider's clock",
    min: -60_000,
    max: 60_000,
    step: 1_000,
    say: (value) => `${value > 0 ? '+' : ''}${span(value)}`,
  },
]
const usual = {
  latencyMs: 0,
  errorRate: 0,
  resetRate: 0,
  cutRate: 0,
  hangRate: 0,
  quoteLifetimeMs: 30_000,
  quoteAmounts: 'strings',
  clockOffsetMs: 0,
  restrictedPlace: '203.0.113.0/24',
  orderOutcome: 'complete',
  scope: 'all',
}

/** The sandbox's behaviour with unsent changes; null without a sandbox or full rights. */
let faults = null
/** Changes not yet taken by the gateway. */
let changes = {}

export function view() {
  faults = page.shown.faults && { ...page.shown.faults, ...changes }
  if (faults === null) return undefined
  const reset = html`<button type="button" class="quiet" onClick=${() => set(usual)}>Reset</button>`
  return html`<${Panel} id="sandbox" title="Sandbox" tools=${reset}
    count="how both upstreams behave from now on, for every caller">
    <form class="sliders" data-role="body" onSubmit=${(event) => event.preventDefault()}>
      ${sliders.map(slider)}
      <label>Restricted place (CIDR)<input spellcheck=${false} autocomplete="off"
        ...${changing('restrictedPlace')} /></label>
      ${choice('Latency and errors apply to', 'scope', ['all', 'swap', 'payments'])}
      ${choice('Amounts of quotes are JSON', 'quoteAmounts', ['strings', 'numbers'])}
      ${choice('New orders end as', 'orderOutcome', ['complete', 'failed', 'refunded', 'expired'])}
    </form>
  <//>`
}

function slider({ key, label, min = 0, max, step, say: sayValue }) {
  const text = sayValue(faults[key])
  return html`<label>
    <span class="name">${label}<output>${text}</output></span>
    <input type="range" min=${min} max=${max} step=${step} aria-label=${label} aria-valuetext=${text}
      ...${changing(key, Number)} />
  </label>`
}

function choice(label, name, values) {
  const options = values.map((value) => html`<option value=${value}>${value}</option>`)
  return html`<label>${label}<select ...${changing(name)}>${options}</select></label>`
}

/** A control's attributes. Nothing is sent while it is being moved. */
function changing(name, read = (text) => text.trim()) {
  const changed = ({ target }) => ({ [name]: read(target.value) })
  const onInput = (event) => show(changed(event))
  return { name, value: faults[name], onInput, onChange: (event) => set(changed(event)) }
}

function show(changed) {
  changes = { ...changes, ...changed }
  redraw()
}

async function set(changed) {
  try {
    page.shown.faults = await act('faults', changed)
  } catch (error) {
    sayError(error)
  }
  changes = {}
  redraw()
}
