import { randomUUID } from 'node:crypto'

const json = { 'App-Name': 'wallet', 'Content-Type': 'application/json' }

export async function askForQuote(url, amount) {
  const answer = await fetch(`${url}/v3/pairs/ETH_USDC/quotes?amount=${amount}`, { headers: json })
  if (!answer.ok) throw new Error(`no quote: ${answer.status}`)
  return answer.json()
}

/**
 * What a click on "Swap" does. Its key is made here, once, so that whatever sends this order again (a double click, a reload, a
 * retry) is given the answer of the first. `tolerance`: by what share a new price may be worse than the one that was shown.
 */
export async function orderOnce(url, { quote, addresses, tolerance, key = randomUUID() }) {
  const body = JSON.stringify({
    pairId: quote.pairId,
    fromAmount: quote.fromAmount.value,
    toAmount: quote.toAmount.value,
    ...addresses,
  })
  const headers = { ...json, 'Quotegate-Quote': quote.id, 'Idempotency-Key': key }
  const answer = await fetch(`${url}/v3/orders/float`, { method: 'POST', headers, body })
  const said = await answer.json()
  if (answer.ok) return said
  const problem = String(said.type).split(':').at(-1)
  if (problem === 'order-in-progress') {
    await new Promise((resolve) => setTimeout(resolve, 1_000 * Number(answer.headers.get('retry-after'))))
    return orderOnce(url, { quote, addresses, tolerance, key })
  }
  if (problem === 'quote-expired' && tolerance !== undefined) {
    const next = await (await fetch(url + said.requote, { headers: json })).json()
    const isFair = Number(next.toAmount.value) >= Number(quote.toAmount.value) * (1 - tolerance)
    // Nothing was sent, so the key is free. A second time the user is asked.
    if (isFair) return orderOnce(url, { quote: next, addresses, key })
  }
  // Of an order that may have been carried out, `lookup` lists what there is. It is never sent again blindly.
  if (said.lookup) return { mayBeAmong: await (await fetch(url + said.lookup, { headers: json })).json() }
  throw new Error(said.detail ?? `the provider answered ${answer.status}`)
}
