import { createRandom, drawBetween } from '../simulation/random.ts'
import { type Client, lifeMs, minuteMs, openMarket, type Quote, startMs, walk } from './market.ts'
import type { Outcome } from './tally.ts'

const slippages = [0, 0.001, 0.0025, 0.005, 0.01, 0.02]
/** Each precision of the provider is a pair. */
const pairs = [1, 2, 3, 6].map((decimals) => `ETH_USDC${decimals}`)
const countries = ['DE', 'FR', 'PL', 'IT']
const clients = Array.from({ length: 20 }, (_, index) => ({
  address: `192.0.2.${index + 1}`,
  country: countries[index % countries.length] as string,
}))
/** The first asks every minute or more often, the others in turn. */
const [busy, ...calm] = clients as [Client, ...Client[]]
/** In minutes: by noon the ledger knows enough prices. */
const firstVisitAt = 720
const visitEvery = 40

/** From where the client orders: from where it asked, from where no client has asked, or without an address. */
const places: Record<string, (asker: Client) => Client> = {
  same: (asker) => asker,
  changed: () => ({ address: '198.51.100.7', country: 'NZ' }),
  unknown: () => ({ address: undefined }),
}

interface Day {
  /** How far the price moves. */
  aDay: number
  partition: string
}

/** A day of quotes. In its second half a client orders what its newest quotes say, while they live and when they are over. */
export async function playDay({ aDay, partition }: Day): Promise<Outcome[]> {
  const random = createRandom(Math.round(aDay * 1_000))
  const middle = walk(random, aDay)
  const market = await openMarket(
    { price: (nowMs, pair) => middle(nowMs).toFixed(Number(pair.at(-1))) },
    {
      QUOTE_PARTITION: partition,
      ...(partition === 'header' && { QUOTE_PARTITION_HEADER: 'x-country' }),
    },
  )
  const outcomes: Outcome[] = []
  const askAll = (client: Client) => Promise.all(pairs.map((pair) => market.ask(client, pair)))

  /** `newer`: who has a newer quote than the one that is over, or that it lives. */
  async function orderAll(asker: Client, quotes: readonly Quote[], newer: string): Promise<void> {
    const orders: Promise<Outcome>[] = []
    for (const quote of quotes) {
      for (const [address, clientAt] of Object.entries(places)) {
        for (const stated of ['2 decimals', 'all digits']) {
          for (const slippage of slippages) {
            const least = Number(quote.price) * (1 - slippage)
            const toAmount = stated === '2 decimals' ? least.toFixed(2) : String(least)
            const names = {
              'a day': `${aDay * 100} %`,
              partition,
              client: asker === busy ? 'busy' : 'calm',
              address,
              decimals: quote.pair.slice(-1),
              stated,
              slippage: `${slippage * 100} %`,
              'newer quote': newer,
            }
            orders.push(market.order(clientAt(asker), quote, toAmount).then((order) => ({ names, ...order })))
          }
        }
      }
    }
    outcomes.push(...(await Promise.all(orders)))
  }

  for (let minute = 0; minute < 1_440; minute += 1) {
    market.moveTo(startMs + minute * minuteMs)
    const ofBusy = await askAll(busy)
    const untilVisit = (2 * firstVisitAt - minute) % visitEvery
    if (minute < firstVisitAt || untilVisit !== 0) {
      // The first client has a new price every 30 s in the quarter of an hour before it orders.
      market.moveTo(market.nowMs() + minuteMs / 2)
      if (minute > firstVisitAt - 16 && untilVisit <= 15) await askAll(busy)
      else if (minute % 5 === 0) await askAll(calm[(minute / 5) % calm.length] as Client)
      continue
    }
    const visit = (minute - firstVisitAt) / visitEvery
    const other = calm[visit % calm.length] as Client
    const ofOther = await askAll(other)
    const [asker, stranger, quotes] = visit % 2 === 0 ? [busy, other, ofBusy] : [other, busy, ofOther]
    const endMs = market.nowMs() + lifeMs
    market.moveTo(market.nowMs() + drawBetween(random, [1_000, lifeMs - 1]))
    await orderAll(asker, quotes, 'live')
    market.moveTo(endMs + drawBetween(random, [1_000, 60_000]))
    const newer = ['no client', 'others', 'its client'][visit % 3] as string
    if (newer === 'others') await askAll(stranger)
    if (newer === 'its client') await askAll(asker)
    await orderAll(asker, quotes, newer)
    minute += 1
  }
  await market.close()
  return outcomes
}
