import type { WholeAnswer } from '../../src/upstream/fetch.ts'
import type { VirtualTime } from './virtual-time.ts'

export interface SimulatedProvider {
  readonly calls: number
  /** The quote's id begins with `mark`, which says whose request the quote answers. */
  quote(order: { pair: string; amount: string; mark: string }): Promise<WholeAnswer>
}

export interface SimulatedProviderOptions {
  time: VirtualTime
  latencyMs: number
  quoteLifeMs: number
}

/** A swap API whose clock agrees with ours and whose quotes start to live halfway through the call. */
export function createProvider({
  time,
  latencyMs,
  quoteLifeMs,
}: SimulatedProviderOptions): SimulatedProvider {
  let calls = 0

  return {
    get calls() {
      return calls
    },
    quote({ pair, amount, mark }) {
      calls += 1
      const id = `${mark}#${calls}`
      const sentAtMs = time.nowMs()
      return new Promise((resolve) => {
        time.at(sentAtMs + Math.floor(latencyMs / 2), () => {
          const madeAtMs = time.nowMs()
          const body = quoteBody({ id, pair, amount, expiry: madeAtMs + quoteLifeMs })
          const rawHeaders = ['Date', new Date(madeAtMs).toUTCString(), 'Content-Type', 'application/json']
          const receivedAtMs = sentAtMs + latencyMs
          time.at(receivedAtMs, () =>
            resolve({
              status: 200,
              reason: 'OK',
              rawHeaders,
              body,
              sentAtMs,
              receivedAtMs,
              // The simulated clock has no other.
              sentSteadyMs: sentAtMs,
              receivedSteadyMs: receivedAtMs,
            }),
          )
        })
      })
    },
  }
}

function quoteBody(quote: { id: string; pair: string; amount: string; expiry: number }): Buffer {
  const { id, pair, amount, expiry } = quote
  const [from, to] = pair.split('_')
  return Buffer.from(
    JSON.stringify({
      id,
      pairId: pair,
      fromAmount: { assetId: from, value: amount },
      toAmount: { assetId: to, value: amount },
      expiry,
    }),
  )
}
