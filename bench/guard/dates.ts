import { createRandom, drawBetween, type Random } from '../simulation/random.ts'
import { lifeMs, openMarket, type Quote, runInTurn, type Step, startMs } from './market.ts'

/** By how many seconds the `Date` of an answer is off. The provider's `expiry` and the gateway's clock are right. */
const cases: Record<string, (second: number, random: Random) => number> = {
  right: () => 0,
  '15 s ahead': () => 15,
  '31 s ahead': () => 31,
  '40 s ahead': () => 40,
  'an hour ahead': () => 3_600,
  '20 s behind': () => -20,
  'an hour behind': () => -3_600,
  frozen: (second) => -second,
  'renewed every minute': (second) => -(second % 60),
  '40 s ahead in half of the answers': (_second, random) => (random() < 1 / 2 ? 40 : 0),
  '40 s ahead in a fifth of the answers': (_second, random) => (random() < 1 / 5 ? 40 : 0),
}
export const quotesPerDate = 200

/** For each case, quotes that are ordered while they live, and asked for again and ordered after their end. */
export async function playDates(): Promise<string[][]> {
  const plays = Object.entries(cases).map(async ([name, secondsOff]) => [
    name,
    ...(await playDate(secondsOff)),
  ])
  return Promise.all(plays)
}

async function playDate(secondsOff: (second: number, random: Random) => number) {
  const random = createRandom(46)
  const randomDate = createRandom(47)
  const market = await openMarket({
    // No price comes twice, so that it names its quote.
    price: (nowMs) => `289.${String(nowMs - startMs).padStart(9, '0')}1`,
    dateMs: (nowMs) => nowMs + 1_000 * secondsOff(Math.floor((nowMs - startMs) / 1_000), randomDate),
  })
  let liveRefused = 0
  const servedAfterMs: number[] = []
  const sentAfterMs: number[] = []
  const steps: Step[] = []
  let atMs = startMs
  for (let amount = 1; amount <= quotesPerDate; amount += 1) {
    const client = { address: `192.0.2.${amount}` }
    const ask = () => market.ask(client, 'ETH_USDC', String(amount))
    let quote: Quote
    const isSent = async () => (await market.order(client, quote, quote.price)).isSent
    atMs += drawBetween(random, [1, 10_000])
    const endMs = atMs + lifeMs
    const lateByMs = drawBetween(random, [100, 90_000])
    steps.push(
      {
        atMs,
        async run() {
          quote = await ask()
        },
      },
      {
        atMs: endMs - drawBetween(random, [100, lifeMs - 100]),
        async run() {
          if (!(await isSent())) liveRefused += 1
        },
      },
      {
        atMs: endMs + lateByMs,
        async run() {
          if ((await ask()).id === quote.id) servedAfterMs.push(lateByMs)
          if (await isSent()) sentAfterMs.push(lateByMs)
        },
      },
    )
  }
  await runInTurn(market, steps)
  await market.close()
  return [String(liveRefused), byUpTo(servedAfterMs), byUpTo(sentAfterMs)]
}

function byUpTo(lateByMs: readonly number[]): string {
  if (lateByMs.length === 0) return '0'
  return `${lateByMs.length}, by up to ${(Math.max(...lateByMs) / 1_000).toFixed(1)} s`
}
