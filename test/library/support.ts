import { createServer, type RequestListener } from 'node:http'
import request from 'supertest'
import { onTestFinished } from 'vitest'
import { createGateway, type Gateway, type GatewaySettings } from '../../src/index.ts'
import { listening } from '../support/machine/listening.ts'

export const quotePath = '/v3/pairs/ETH_USDC/quotes?amount=0.1'

/** A gateway that does not listen, for one test. */
export async function gatewayOf(settings: GatewaySettings = {}): Promise<Gateway> {
  const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0, ...settings })
  onTestFinished(() => gateway.close())
  return gateway
}

export const askQuote = (app: RequestListener, path = quotePath) =>
  request(app).get(path).set('App-Name', 'tests')

/** An order for a quote of `quotePath`. */
export const orderFor = (quote: { pairId: string; toAmount: { value: string } }) => ({
  pairId: quote.pairId,
  fromAmount: 0.1,
  toAmount: quote.toAmount.value,
  toAddress: '0xto',
})

/** A server of the user's own, by its port. */
export async function ownServer(
  app?: RequestListener,
): Promise<{ port: number; close(): Promise<unknown> }> {
  const server = createServer(app)
  const close = () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  }
  return { ...(await listening(server)), close }
}
