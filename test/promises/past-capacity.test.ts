import { expect, test } from 'vitest'
import { type Load, playPastCapacity } from '../support/clients/past-capacity.ts'

// At twice what its connections could take, quotes and orders got theirs when hardly any of their time was left: 0 to 0.2
// of 2 requests a second were answered for 40 s, and 29 of 143 sent orders were cut: their outcome was unknown.
const loads: Load[] = ['quotes', 'float orders', 'quotes and float orders']

const twice = { connections: 4, callMs: 400, totalTimeoutMs: 4_000, requestsPerSecond: 25, requests: 100 }

// At the same time, because each of them takes as long as its requests come.
test.concurrent.each(loads)(
  'at twice what the connections can take, %s are refused unsent, and all that are sent are answered',
  async (load) => {
    // The connections can take 10 a second, or 7.5 if none is a float order. If none was refused, the last would wait for 6 s.
    const { ended, sent } = await playPastCapacity({ load, ...twice })
    const statuses = ended.map(({ status }) => (status < 300 ? 'answered' : `${status}`))
    expect(new Set(statuses)).toEqual(new Set(['answered', '503']))
    expect(statuses.filter((status) => status === 'answered')).toHaveLength(sent)
  },
)

// The rest of /v3 waited for up to 10 s and quotes for 7.5 s: after 20 s of this, 0 of 30 answers in 10 s were quotes.
test.concurrent('at twice what the connections can take, quotes and the rest of /v3 share the connections', async () => {
  const { ended } = await playPastCapacity({ load: 'quotes and the rest', ...twice })
  const answered = ended.filter(({ status }) => status === 200)
  const quotes = answered.filter(({ isQuote }) => isQuote)
  expect(quotes.length).toBeGreaterThan(answered.length / 3)
  expect(answered.length - quotes.length).toBeGreaterThan(answered.length / 3)
})
