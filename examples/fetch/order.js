// This caller is for one user. A backend names each user too, and sets a timeout: docs/clients.md.
const json = { 'App-Name': 'wallet', 'Content-Type': 'application/json' }

async function ask(url) {
  const answer = await fetch(url, { headers: json })
  // A problem must not pass for a quote, or for a list in which the order is missing.
  if (!answer.ok) throw new Error(`${answer.status} for ${url}`)
  return answer.json()
}

export const askForQuote = (url, amount) =>
  ask(`${url}/v3/pairs/ETH_USDC/quotes?amount=${amount}`)

/**
 * What a click on "Swap" does. `key`, such as `crypto.randomUUID()`, is made when the page shows the quote, and kept with it: what
 * sends this order again (a double click, a reload, a retry after a network error) passes the same key, and is given the answer of
 * the first. `tolerance`: by what share a new price may be worse than the one that was shown.
 */
export async function orderOnce(url, { quote, addresses, tolerance, key }) {
  // A key that were made here would be another one for each call.
  if (!key) throw new TypeError('an order needs the key of its click')
  const body = JSON.stringify({
    pairId: quote.pairId,
    fromAmount: quote.fromAmount.value,
    toAmount: quote.toAmount.value,
    ...addresses,
  })
  const headers = { ...json, 'Quotegate-Quote': quote.id, 'Idempotency-Key': key }
  const answer = await fetch(`${url}/v3/orders/float`, { method: 'POST', headers, body })
  // What stands before the provider may answer a page, or nothing.
  const said = await answer.json().catch(() => undefined)
  if (answer.ok && said) return said
  const problem = String(said?.type).split(':').at(-1)
  if (problem === 'order-in-progress') {
    await new Promise((resolve) =>
      setTimeout(resolve, 1_000 * Number(answer.headers.get('retry-after'))),
    )
    return orderOnce(url, { quote, addresses, tolerance, key })
  }
  if (problem === 'quote-expired' && tolerance !== undefined) {
    const next = await ask(url + said.requote)
    const isFair =
      Number(next.toAmount.value) >= Number(quote.toAmount.value) * (1 - tolerance)
    // Nothing was sent, so the key is free. A second time the user is asked.
    if (isFair) return orderOnce(url, { quote: next, addresses, key })
  }
  // Of an order that may have been carried out, `lookup` lists what there is. It is never sent again blindly. An order of this
  // click with other bytes is one at a new price, as above, that was sent before a reload.
  const isSent = problem === 'idempotency-key-reused'
  const lookup = isSent
    ? `/v3/orders?toAddress=${encodeURIComponent(addresses.toAddress)}`
    : said?.lookup
  if (lookup) return { mayBeAmong: await ask(url + lookup) }
  throw new Error(said?.detail ?? `the provider answered ${answer.status}`)
}
