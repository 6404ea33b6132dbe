import assert from 'node:assert/strict'

const headers = { 'App-Name': 'demo', 'Content-Type': 'application/json' }

export interface Quote {
  id: string
  pairId: string
  expiry: number
  toAmount: { value: string }
}

export async function quoteOf(url: string, amount: number | string = 0.1): Promise<Quote> {
  const target = `${url}/v3/pairs/ETH_USDC/quotes?amount=${amount}`
  const response = await fetch(target, { headers, signal: AbortSignal.timeout(20_000) })
  assert.equal(response.status, 200, `a quote: ${response.status}`)
  return (await response.json()) as Quote
}

/** A float order as real clients send it: by the terms of a quote. */
export async function order(url: string, quote: Quote, fromAmount: number | string = 0.1): Promise<void> {
  const response = await fetch(`${url}/v3/orders/float`, {
    method: 'POST',
    headers,
    body: JSON.stringify({
      pairId: quote.pairId,
      fromAmount: Number(fromAmount),
      toAmount: quote.toAmount.value,
      fromAddress: '0xfrom',
      toAddress: '0xto',
    }),
    signal: AbortSignal.timeout(20_000),
  })
  const answer = await response.text()
  assert.ok(response.ok, `an order: ${response.status} ${answer}`)
}

export async function checkout(url: string): Promise<void> {
  const response = await fetch(`${url}/checkouts`, {
    method: 'POST',
    headers: { ...headers, Authorization: 'Bearer any-key' },
    body: '{ "amount": "10.00", "currency": "USD" }',
    signal: AbortSignal.timeout(20_000),
  })
  await response.arrayBuffer()
  assert.equal(response.status, 201, `a checkout: ${response.status}`)
}
