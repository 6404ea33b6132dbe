import { describe, expect, it, onTestFinished } from 'vitest'
import { type GivenQuote, post, termsOf } from '../support/clients/orders.ts'
import { ask, giveQuote, quoteBody, quotePath } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import { eventually } from '../support/gateways/replicas.ts'
import { storeFaults } from '../support/stores/store-faults.ts'

const longMs = 120_000
const shortMs = 1_500
/** So many amounts, of each of which there is an expired quote. */
const known = 400

/** Three replicas on a store that can be broken, before a provider each of whose prices is another one. */
async function stage(storeUrl: string) {
  let prices = 0
  const upstream = await recordingUpstream(({ method, target }, response) => {
    if (method === 'POST') {
      response.writeHead(201).end('{}')
      return
    }
    const query = new URL(target, 'http://provider').searchParams
    prices += 1
    const body = quoteBody({
      expiry: Date.now() + (query.has('short') ? shortMs : longMs),
      fromAmount: { assetId: 'ETH', value: query.get('amount') },
      toAmount: { assetId: 'USDC', value: `289.${604_811 + prices}` },
    })
    giveQuote(response, body)
  })
  async function replica(): Promise<RunningGateway> {
    const gateway = await startGateway({
      SWAP_BASE_URL: upstream.url,
      VALKEY_URL: storeUrl,
      VALKEY_TIMEOUT_MS: '500',
      ORDER_UNKNOWN_QUOTE: 'forward',
    })
    onTestFinished(() => gateway.close())
    return gateway
  }
  async function quote({ url }: RunningGateway, amount: number, kind: 'short' | 'long'): Promise<GivenQuote> {
    const { status, body } = await ask(url, { path: `${quotePath}?amount=${amount}&${kind}=1` })
    if (status !== 200) throw new Error(`no ${kind} quote for ${amount}: ${body}`)
    return JSON.parse(body)
  }
  const order = async ({ url }: RunningGateway, given: GivenQuote) =>
    (await rawExchange(url, post(JSON.stringify(termsOf(given))))).status
  return { replica, quote, order }
}

describe.each(storeFaults.filter(({ fromTheStart }) => !fromTheStart))(
  'with a store that is $name',
  { tags: ['redis-server'] },
  (fault) => {
    it('no live order is refused, and expired ones are again within seconds of its return, everywhere', async () => {
      const store = await fault.set()
      onTestFinished(() => store.end())
      const { replica, quote, order } = await stage(store.url)
      const replicas = [await replica(), await replica(), await replica()]
      const one = () => replicas[Math.floor(Math.random() * 3)] as RunningGateway
      const expired: GivenQuote[] = []
      const refused: string[] = []
      let phase = 'before'
      let isOver = false
      /** A live quote of an amount of which all replicas know an expired one, and its order at any replica. */
      let traded = 0
      async function trade(at: RunningGateway): Promise<void> {
        while (!isOver && traded < known) {
          traded += 1
          const live = await quote(at, traded, 'long')
          for (const where of [one(), at, one()]) {
            const status = await order(where, live)
            if (status !== 201) refused.push(`${phase}: ${status}`)
          }
          await pause(50)
        }
      }
      for (let amount = 1; amount <= known; amount += 20)
        await Promise.all(Array.from({ length: 20 }, (_, index) => quote(one(), amount + index, 'short')))
      for (const gateway of replicas) expired.push(await quote(gateway, known + expired.length + 1, 'short'))
      // A start is careful for two seconds, and the quotes have to be over.
      await pause(3_000)
      for (const late of expired) for (const at of replicas) expect(await order(at, late)).toBe(409)
      const trading = replicas.map(trade)
      onTestFinished(() => {
        isOver = true
      })
      await pause(500)

      phase = 'broken'
      await store.break()
      for (const gateway of replicas) expired.push(await quote(gateway, known + expired.length + 1, 'short'))
      await pause(2_500)
      phase = 'back'
      await store.mend()
      const backAtMs = performance.now()
      const later = await replica()
      for (const at of [...replicas, later]) {
        await eventually('all expired orders to be refused', async () => {
          for (const late of expired) if ((await order(at, late)) !== 409) return false
          return true
        })
      }
      // Five seconds, on a machine that has other work too.
      expect(performance.now() - backAtMs).toBeLessThan(10_000)
      isOver = true
      await Promise.all(trading)
      expect(refused).toEqual([])
      expect(traded).toBeGreaterThan(20)
    }, 60_000)
  },
)
