export interface Sent {
  what: string
  status: number
  /** Answered as it would be without any store. */
  good: boolean
  ms: number
}

interface SandboxQuote {
  id: string
  pairId: string
  fromAmount: { value: string }
  toAmount: { value: string }
}

let turn = 0

async function send(
  users: { url: string },
  what: string,
  path: string,
  init: RequestInit = {},
) {
  const startedAtMs = performance.now()
  const answer = await fetch(users.url + path, {
    ...init,
    headers: {
      'App-Name': 'wallet',
      'Content-Type': 'application/json',
      ...init.headers,
    },
  })
  const text = await answer.text()
  const sent: Sent = {
    what,
    status: answer.status,
    good: answer.ok,
    ms: performance.now() - startedAtMs,
  }
  return { sent, text }
}

const quotePath = (amount: string) => `/v3/pairs/ETH_USDC/quotes?amount=${amount}`

export async function quoteAt(
  users: { url: string },
  amount: string,
): Promise<SandboxQuote> {
  const { text } = await send(users, 'quote', quotePath(amount))
  return JSON.parse(text) as SandboxQuote
}

/** A quote that no replica has, the same again, an order for it, and a payment: one after the other. */
export async function everyKindOfRequest(users: { url: string }): Promise<Sent[]> {
  turn += 1
  const amount = `${turn}.${Math.floor(1e6 + Math.random() * 9e6)}`
  const cold = await send(users, 'quote, cold', quotePath(amount))
  const hit = await send(users, 'quote, hit', quotePath(amount))
  const { pairId, fromAmount, toAmount } = JSON.parse(cold.text) as SandboxQuote
  const order = await send(users, 'float order', '/v3/orders/float', {
    method: 'POST',
    body: JSON.stringify({
      pairId,
      fromAmount: fromAmount.value,
      toAmount: toAmount.value,
      fromAddress: '0xfrom',
      toAddress: '0xto',
    }),
  })
  const payment = await send(users, 'payment', '/checkouts', {
    method: 'POST',
    headers: { Authorization: 'Bearer key' },
    body: '{"amount":"10.00","currency":"USD"}',
  })
  return [cold.sent, hit.sent, order.sent, payment.sent]
}
