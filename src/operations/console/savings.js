import { element, setText } from './dom.js'
import { count, milliseconds, percent, reach } from './format.js'

/** The line at the top: what the gateway saved and stopped. */
export function createSavings() {
  const line = document.getElementById('savings')
  const period = element('span', { class: 'dim' })
  const items = new Map()
  line.append(period)

  function set(key, value, text) {
    let found = items.get(key)
    if (found === undefined) {
      found = { value: element('strong'), text: element('span') }
      line.append(element('span', { class: 'saved', 'data-saved': key }, found.value, ' ', found.text))
      items.set(key, found)
    }
    setText(found.value, value)
    setText(found.text, text)
  }

  function show({ health: { savings, upstreams } }) {
    const { quotes, callsSaved, orders, ordersMatched, expiredOrdersStopped, forMs } = savings
    setText(period, `In the ${reach(forMs / 1000)}`)
    set(
      'calls',
      count(callsSaved),
      quotes === 0
        ? 'calls saved'
        : `calls saved (${percent(callsSaved / quotes, 0)} of ${count(quotes)} quotes)`,
    )
    set(
      'expired',
      count(expiredOrdersStopped),
      `expired order${expiredOrdersStopped === 1 ? '' : 's'} stopped`,
    )
    set(
      'matched',
      orders === 0 ? '–' : percent(ordersMatched / orders, 0),
      `of ${count(orders)} order${orders === 1 ? '' : 's'} matched`,
    )
    const provider = upstreams
      .find(({ name }) => name === 'swap')
      ?.traffic.find(({ traffic }) => traffic === 'quotes')
    if (provider !== undefined)
      set(
        'provider',
        provider.p95Ms === null ? '–' : `${milliseconds(provider.p95Ms)} ms`,
        `provider's p95 for quotes (${reach(provider.seconds)})`,
      )
  }
  return { hello: show, tick: show }
}
