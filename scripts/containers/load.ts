import { Agent, request } from 'node:http'

export interface LoadResult {
  quotes: number
  posts: number
  failures: string[]
  seconds: number
}

const connections = 32
const payment = JSON.stringify({ amount: '10.00', currency: 'USD', note: 'x'.repeat(64 * 1_024) })

/** So many quotes of different amounts, and after every ninth a POST: an order for it, or a payment of 64 KiB. */
export async function load(url: string, quotes: number): Promise<LoadResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const result: LoadResult = { quotes: 0, posts: 0, failures: [], seconds: 0 }
  const beganMs = Date.now()
  let next = 0

  async function expectStatus(expected: number, path: string, body?: string): Promise<string> {
    const { status, text } = await send(agent, url + path, body)
    if (status !== expected) throw new Error(`${path}: ${status} ${text.slice(0, 200)}`)
    return text
  }

  async function client(): Promise<void> {
    while (next < quotes && result.failures.length < 100) {
      const own = next++
      const fromAmount = `1.${String(own).padStart(6, '0')}1`
      try {
        const quote = JSON.parse(
          await expectStatus(200, `/v3/pairs/ETH_USDC/quotes?amount=${fromAmount}`),
        ) as { toAmount: { value: string } }
        result.quotes += 1
        if (own % 9 !== 0) continue
        const { value: toAmount } = quote.toAmount
        const order = { pairId: 'ETH_USDC', fromAmount, toAmount, fromAddress: '0xfrom', toAddress: '0xto' }
        if (own % 2 === 0) await expectStatus(201, '/v3/orders/float', JSON.stringify(order))
        else await expectStatus(201, '/checkouts', payment)
        result.posts += 1
      } catch (error) {
        result.failures.push(String(error))
      }
    }
  }

  await Promise.all(Array.from({ length: connections }, client))
  agent.destroy()
  result.seconds = (Date.now() - beganMs) / 1_000
  return result
}

function send(agent: Agent, url: string, body?: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers: Record<string, string> = { 'App-Name': 'demo', Authorization: 'Bearer any-key' }
    if (body !== undefined) {
      headers['Content-Type'] = 'application/json'
      headers['Content-Length'] = String(Buffer.byteLength(body))
    }
    const sent = request(url, { agent, headers, method: body === undefined ? 'GET' : 'POST' }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() })
      })
    })
    sent.on('error', reject).end(body)
  })
}
