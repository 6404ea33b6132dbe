import { act } from './api.js'
import { element, part, setText } from './dom.js'
import { percent, span } from './format.js'

const ms = (value) => `${Math.round(value)} ms`
const sliders = [
  { key: 'latencyMs', label: 'Latency', max: 3_000, step: 50, say: ms },
  { key: 'errorRate', label: 'Errors (503)', max: 1, step: 0.05, say: (value) => percent(value, 0) },
  { key: 'resetRate', label: 'Resets', max: 1, step: 0.05, say: (value) => percent(value, 0) },
  { key: 'quoteLifetimeMs', label: 'Quote lifetime', min: 1_000, max: 120_000, step: 1_000, say: span },
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
  clockOffsetMs: 0,
  restrictedPlace: '203.0.113.0/24',
  orderOutcome: 'complete',
  scope: 'all',
}

export function createSandbox({ say }) {
  const panel = document.getElementById('sandbox')
  const form = part(panel, 'body')
  const shown = sliders.map((slider) => {
    const output = element('output')
    const range = element('input', {
      type: 'range',
      name: slider.key,
      min: slider.min ?? 0,
      max: slider.max,
      step: slider.step,
      'aria-label': slider.label,
    })
    range.addEventListener('input', () => tell(slider, range, output))
    range.addEventListener('change', () => set({ [slider.key]: Number(range.value) }))
    form.append(element('label', {}, element('span', { class: 'name' }, slider.label, output), range))
    return { slider, range, output }
  })
  const place = element('input', { name: 'restrictedPlace', spellcheck: 'false', autocomplete: 'off' })
  place.addEventListener('change', () => set({ restrictedPlace: place.value.trim() }))
  form.append(element('label', {}, 'Restricted place (CIDR)', place))
  const scope = choice('scope', ['all', 'swap', 'payments'])
  form.append(element('label', {}, 'Latency and errors apply to', scope))
  const outcome = choice('orderOutcome', ['complete', 'failed', 'refunded', 'expired'])
  form.append(element('label', {}, 'New orders end as', outcome))
  form.addEventListener('submit', (event) => event.preventDefault())
  part(panel, 'reset').addEventListener('click', () => set(usual))

  function choice(name, values) {
    const options = values.map((value) => element('option', { value, text: value }))
    const select = element('select', { name }, ...options)
    select.addEventListener('change', () => set({ [name]: select.value }))
    return select
  }

  function tell(slider, range, output) {
    const text = slider.say(Number(range.value))
    setText(output, text)
    range.setAttribute('aria-valuetext', text)
  }

  function show(faults) {
    for (const { slider, range, output } of shown) {
      range.value = String(faults[slider.key])
      tell(slider, range, output)
    }
    place.value = faults.restrictedPlace
    scope.value = faults.scope
    outcome.value = faults.orderOutcome
  }

  async function set(next) {
    try {
      show(await act('faults', next))
    } catch (error) {
      say(error.message, 'error')
    }
  }

  return {
    hello({ faults }) {
      panel.hidden = faults === null
      if (faults !== null) show(faults)
    },
    tick() {},
  }
}
