import { expect, test } from 'vitest'
import { ask, giveQuote, keepAliveAgent, quotePath } from '../support/clients/quotes.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'

const requests = 16_000
const connections = 32

/** What a flag of V8 says of each collection: the bytes that it copied, because they were still in use. */
function copiedBytes(trace: string): number {
  const sizes = trace.matchAll(/ (?:promoted|new_space_survived)=(\d+)/g)
  return Array.from(sizes, ([, bytes]) => Number(bytes)).reduce(
    (all, one) => all + one,
    0,
  )
}

// A set that never shrank kept whole requests, so that collections copied 16.7 KB for each quote; now they copy 6.5 KB,
// nearly all of which are the entries of cache and ledger.
test('a quote that was fetched leaves little behind: collections copy at most 10 KB for it', async () => {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const program = await startListening(
    { SWAP_BASE_URL: upstream.url },
    { v8: ['--trace-gc-nvp'] },
  )
  const agent = keepAliveAgent(connections)
  let sent = 0
  const askOn = async () => {
    while (sent < requests) {
      sent += 1
      const path = `${quotePath}?amount=${sent}`
      const { status } = await ask(program.url, { path, agent })
      expect(status).toBe(200)
    }
  }
  await Promise.all(Array.from({ length: connections }, askOn))
  expect(upstream.requests).toHaveLength(requests)
  const copied = copiedBytes(program.stdout()) / requests
  // Less would mean that nothing was measured.
  expect(copied).toBeGreaterThan(500)
  expect(copied).toBeLessThan(10_000)
})
