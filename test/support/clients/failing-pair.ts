import { startGateway } from '../gateways/gateway.ts'
import { startRecordingUpstream } from '../upstreams/recording-upstream.ts'

export interface FailingPairOptions {
  /** The share of the failing pair's quotes that the provider answers with 503. */
  failing: number
  quotes: number
  /** One order after each of this many quotes. */
  quotesPerOrder: number
  /** 0: one quote after the other, without a pause. */
  quotesPerSecond: number
  settings?: Record<string, string | number>
}

export interface FailingPairResult {
  ordersAccepted: number
  ordersRefused: number
  quotesGiven: number
  /** 503s that the provider made, and those that the gateway made without asking. */
  quotesFailed: number
  quotesRefused: number
}

const quotesOf = (pair: string, amount: string) => `/v3/pairs/${pair}/quotes?amount=${amount}`
const headers = { 'App-Name': 'wallet' }

/** A provider whose order endpoint is well and whose quotes of one pair fail at random, and a client that orders. */
export async function playFailingPair(options: FailingPairOptions): Promise<FailingPairResult> {
  let isFailing = false
  let random = 1
  // The constants of Numerical Recipes: the same failures in every run.
  const nextRandom = () => {
    random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0
    return random / 2 ** 32
  }
  const provider = await startRecordingUpstream((request, response) => {
    if (request.method === 'POST') {
      response.writeHead(201, { 'Content-Type': 'application/json' }).end('{"id":"an-order"}')
      return
    }
    if (isFailing && nextRandom() < options.failing) {
      response.writeHead(503).end('the provider')
      return
    }
    const [, pairId = '', amount = ''] = /^\/v3\/pairs\/(.+)\/quotes\?amount=(.+)$/.exec(request.target) ?? []
    response.setHeader('Content-Type', 'application/json')
    response.end(
      JSON.stringify({
        fromAmount: { assetId: 'ETH', value: amount },
        id: `${pairId}-${amount}`,
        pairId,
        toAmount: { assetId: 'USDC', value: '289.645' },
        expiry: Date.now() + 3_600_000,
      }),
    )
  })
  const gateway = await startGateway({
    SWAP_BASE_URL: provider.url,
    breakerFailures: 5,
    breakerOpenMs: 5_000,
    LOG_LEVEL: 'silent',
    ...options.settings,
  })
  const result = { ordersAccepted: 0, ordersRefused: 0, quotesGiven: 0, quotesFailed: 0, quotesRefused: 0 }

  async function quote(amount: string): Promise<void> {
    const answer = await fetch(gateway.url + quotesOf('ETH_USDC', amount), { headers })
    const text = await answer.text()
    if (answer.status === 200) result.quotesGiven += 1
    else if (text === 'the provider') result.quotesFailed += 1
    else result.quotesRefused += 1
  }

  async function order(): Promise<void> {
    const body = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 289.645 })
    const answer = await fetch(`${gateway.url}/v3/orders/float`, { method: 'POST', headers, body })
    await answer.text()
    if (answer.status === 201) result.ordersAccepted += 1
    else result.ordersRefused += 1
  }

  try {
    await quote('0.1')
    isFailing = true
    const underWay: Promise<void>[] = []
    for (let count = 1; count <= options.quotes; count += 1) {
      const asked = quote(`1.${count}1`)
      underWay.push(asked)
      if (options.quotesPerSecond === 0) await asked
      else await new Promise((resolve) => setTimeout(resolve, 1_000 / options.quotesPerSecond))
      if (count % options.quotesPerOrder === 0) underWay.push(order())
      if (options.quotesPerSecond === 0) await underWay.at(-1)
    }
    await Promise.all(underWay)
    return result
  } finally {
    await gateway.close()
    await provider.close()
  }
}
