import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'

type Quote = Record<'fromAmount' | 'toAmount', { value: string }> & {
  pairId: string
  expiry: number
}

async function send(url: string, body?: object): Promise<unknown> {
  const headers = {
    'App-Name': 'demo',
    Authorization: 'Bearer any-key',
    'Content-Type': 'application/json',
  }
  const posted = body && { method: 'POST', body: JSON.stringify(body) }
  const response = await fetch(url, {
    headers,
    ...posted,
    signal: AbortSignal.timeout(20_000),
  })
  const answer = await response.text()
  assert.equal(response.status, body ? 201 : 200, `${url}: ${response.status} ${answer}`)
  return JSON.parse(answer)
}

export const quoteOf = (url: string, amount = '0.1') =>
  send(`${url}/v3/pairs/ETH_USDC/quotes?amount=${amount}`) as Promise<Quote>

/** A float order as real clients send it: by the terms of a quote. */
export function order(
  url: string,
  { pairId, fromAmount, toAmount }: Quote,
): Promise<unknown> {
  const terms = { pairId, fromAmount: Number(fromAmount.value), toAmount: toAmount.value }
  return send(`${url}/v3/orders/float`, {
    ...terms,
    fromAddress: '0xfrom',
    toAddress: '0xto',
  })
}

export const checkout = (url: string) =>
  send(`${url}/checkouts`, {
    amount: '10.00',
    currency: 'USD',
    note: 'x'.repeat(64 * 1_024),
  })

/**
 * Clients that ask for a new quote again and again; after each fifth they order, after each ninth they pay with 64 KiB. They
 * go on while `goesOn` says so and no request has failed. Returns what failed.
 */
export async function traffic(
  url: string,
  clients: number,
  pauseMs: number,
  goesOn: (quotes: number) => boolean,
) {
  const failures: string[] = []
  let quotes = 0
  const client = async (own: number) => {
    for (let turn = 1; failures.length === 0 && goesOn(quotes); turn += 1) {
      // No other client has this amount, so that no other client's order uses up the quote.
      const quote = await quoteOf(url, `${own}.${turn}1`)
      quotes += 1
      if (turn % 5 === 0) await order(url, quote)
      if (turn % 9 === 0) await checkout(url)
      await sleep(pauseMs)
    }
  }
  const failed = (error: unknown) => failures.push(String(error))
  await Promise.all(
    Array.from({ length: clients }, (_, index) => client(index + 1).catch(failed)),
  )
  return quotes > 500 ? failures : [...failures, 'too few quotes']
}
