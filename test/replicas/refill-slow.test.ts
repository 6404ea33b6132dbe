import { expect, it, onTestFinished } from 'vitest'
import { type GivenQuote, post, termsOf } from '../support/clients/orders.ts'
import { ask, counted, createTestClock, giveQuote, quoteBody, quotePath } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import { eventually } from '../support/gateways/replicas.ts'
import { valkey } from '../support/stores/valkey.ts'
import { lineTo } from '../support/stores/watched-store.ts'

const lifeMs = 600_000
const live = 'quotegate_float_orders_total{decision="forwarded",reason="live"}'

/** Two replicas on one store. The store's answers to the second one can be held back. */
async function stage() {
  const clock = createTestClock()
  const store = await valkey()
  const line = await lineTo(store.port)
  const upstream = await recordingUpstream(({ method, target }, response) => {
    const date = new Date(clock.nowMs()).toUTCString()
    if (method === 'POST') return void response.writeHead(201, { Date: date }).end('{}')
    const value = new URL(target, 'http://g').searchParams.get('amount')
    const body = quoteBody({ expiry: clock.nowMs() + lifeMs, fromAmount: { assetId: 'ETH', value } })
    giveQuote(response, body, ['Date', date])
  })
  const start = async (storeUrl: string) => {
    const settings = { SWAP_BASE_URL: upstream.url, VALKEY_URL: storeUrl, VALKEY_TIMEOUT_MS: '2000' }
    const gateway = await startGateway(settings, { clock })
    onTestFinished(() => gateway.close())
    await eventually('the store', async () => (await counted(gateway, 'quotegate_store_up')) === 1)
    return gateway
  }
  const [quick, slow] = [await start(store.url), await start(line.url)]
  // Of clients of different versions, for by the store's clock, which goes its own way, the older one could be served.
  const quote = async ({ url }: RunningGateway, amount: number): Promise<GivenQuote> => {
    const headers = ['App-Name', 'wallet', 'App-Version', url]
    return JSON.parse((await ask(url, { path: `${quotePath}?amount=${amount}`, headers })).body)
  }
  const order = async ({ url }: RunningGateway, given: GivenQuote) =>
    (await rawExchange(url, post(JSON.stringify(termsOf(given))))).status
  return { clock, store, line, quick, slow, quote, order }
}

it('a replica refuses no order by its terms until a slow replica has written again what the store lost', {
  tags: ['redis-server'],
  timeout: 120_000,
}, async () => {
  const { clock, store, line, quick, slow, quote, order } = await stage()
  const older = await quote(quick, 0.1)
  clock.advance(lifeMs)
  expect(await order(quick, older)).toBe(409)
  // The quote that is meant is the oldest of those that live, so it is written last: after 8 s at least.
  const meant = await quote(slow, 0.1)
  const others = Array.from({ length: 400 }, (_, index) => quote(slow, index + 1))
  await Promise.all(others)
  line.delayMs = 300
  await store.restartEmpty()
  const statuses = new Set<number>()
  while ((await counted(quick, live)) === 0) {
    statuses.add(await order(quick, meant))
    await pause(50)
  }
  expect([...statuses]).toEqual([201])
  line.delayMs = 0
  clock.advance(lifeMs)
  await eventually('the guard', async () => (await order(quick, meant)) === 409)
})
