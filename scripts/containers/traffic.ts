import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'

const payment = JSON.stringify({ amount: '10.00', currency: 'USD', note: 'x'.repeat(64 * 1_024) })

interface Quote {
  pairId: string
  expiry: number
  fromAmount: { value: string }
  toAmount: { value: string }
}

async function send(url: string, body?: string): Promise<unknown> {
  const headers = { 'App-Name': 'demo', Authorization: 'Bearer any-key', 'Content-Type': 'application/json' }
  const init = { headers, ...(body && { method: 'POST', body }), signal: AbortSignal.timeout(20_000) }
  const response = await fetch(url, init)
  const answer = await response.text()
  assert.equal(response.status, body ? 201 : 200, `${url}: ${response.status} ${answer}`)
  return JSON.parse(answer)
}

export const quoteOf = (url: string, amount = '0.1') =>
  send(`${url}/v3/pairs/ETH_USDC/quotes?amount=${amount}`) as Promise<Quote>

/** A float order as real clients send it: by the terms of a quote. */
export function order(url: string, { pairId, fromAmount, toAmount }: Quote): Promise<unknown> {
  const terms = { pairId, fromAmount: Number(fromAmount.value), toAmount: toAmount.value }
  return send(
    `${url}/v3/orders/float`,
    JSON.stringify({ ...terms, fromAddress: '0xfrom', toAddress: '0xto' }),
  )
}

export const checkout = (url: string) => send(`${url}/checkouts`, payment)

/** Clients that ask for a new quote again and again; after each fifth they order, after each ninth they pay with 64 KiB. */
export class Traffic {
  quotes = 0
  posts = 0
  readonly failures: string[] = []
  readonly #clients: Promise<void>[]
  #goesOn = true

  constructor(url: string, clients: number, pauseMs: number) {
    this.#clients = Array.from({ length: clients }, (_, index) => this.#client(url, index + 1, pauseMs))
  }

  async #client(url: string, own: number, pauseMs: number): Promise<void> {
    for (let turn = 1; this.#goesOn && this.failures.length < 100; turn += 1) {
      try {
        // No other client has this amount, so that no other client's order uses up the quote.
        const quote = await quoteOf(url, `${own}.${turn}1`)
        this.quotes += 1
        if (turn % 5 === 0) await order(url, quote)
        if (turn % 9 === 0) await checkout(url)
        if (turn % 5 === 0 || turn % 9 === 0) this.posts += 1
      } catch (error) {
        this.failures.push(String(error))
      }
      await sleep(pauseMs)
    }
  }

  /** No request may have failed. */
  async stop(): Promise<void> {
    this.#goesOn = false
    await Promise.all(this.#clients)
    process.stdout.write(`    ${this.quotes} quotes, ${this.posts} POSTs, ${this.failures.length} failed\n`)
    assert.deepEqual(this.failures.slice(0, 5), [])
    assert.ok(this.quotes > 100 && this.posts > 10)
  }
}
