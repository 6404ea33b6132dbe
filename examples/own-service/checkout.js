import express from 'express'

/** A service of your own, which sells swaps. Its only setting is where the gateway is. */
export function createCheckout({ swapBaseUrl }) {
  const app = express()
  // Behind a proxy of your own, `request.ip` is the address of the user.
  app.set('trust proxy', 'loopback')

  /** A call to the gateway. It names the user and the service, as docs/clients.md says. */
  const call = (request, path, options = {}) =>
    fetch(`${swapBaseUrl}${path}`, {
      ...options,
      headers: {
        'App-Name': 'checkout',
        'X-Forwarded-For': request.ip,
        'Content-Type': 'application/json',
        ...options.headers,
      },
      // More than UPSTREAM_TOTAL_TIMEOUT_MS, so that the gateway's own answer arrives first.
      signal: AbortSignal.timeout(20_000),
    })

  app.get('/price/:pair', async (request, response) => {
    const { pair } = request.params
    const amount = encodeURIComponent(request.query.amount)
    const answer = await call(request, `/v3/pairs/${pair}/quotes?amount=${amount}`)
    response.status(answer.status).json(await answer.json())
  })

  app.post('/buy', express.json(), async (request, response) => {
    const { quote, toAddress } = request.body
    const order = {
      pairId: quote.pairId,
      fromAmount: quote.fromAmount.value,
      toAmount: quote.toAmount.value,
      toAddress,
    }
    const answer = await call(request, '/v3/orders/float', {
      method: 'POST',
      headers: { 'Quotegate-Quote': quote.id },
      body: JSON.stringify(order),
    })
    const problem = await answer.json()
    if (answer.status === 409 && problem.type.endsWith(':quote-expired'))
      response.status(409).json({ say: 'The price has changed.' })
    else response.sendStatus(answer.status)
  })

  return app
}
