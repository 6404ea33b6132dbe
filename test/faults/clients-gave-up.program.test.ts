import { once } from 'node:events'
import { expect, test } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { giveQuote, quotePath } from '../support/clients/quotes.ts'
import { get, RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import {
  type GatewayProcess,
  startGatewayProcess,
} from '../support/gateways/gateway-process.ts'

const quote = `GET ${quotePath}?amount=0.1 HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n`
const payment = get('/checkouts')

async function stage({ answerAfterMs = 0 } = {}) {
  const upstream = await recordingUpstream(({ target }, response) => {
    setTimeout(
      () => (target.includes('/quotes') ? giveQuote(response) : response.end('{}')),
      answerAfterMs,
    )
  })
  const urls = { SWAP_BASE_URL: upstream.url, PAYMENTS_BASE_URL: upstream.url }
  const gateway = await startGatewayProcess({ ...urls, LOG_LEVEL: 'info' })
  const asked = (part: string) =>
    upstream.requests.filter(({ target }) => target.includes(part)).length
  return { gateway, asked }
}

/** The kernel takes connections and bytes for a process that stands still. */
async function whileStopped(
  { child }: GatewayProcess,
  act: () => Promise<unknown>,
): Promise<void> {
  child.kill('SIGSTOP')
  await act()
  child.kill('SIGCONT')
}

async function sendAndReset(url: string, bytes: string | Buffer): Promise<void> {
  const { socket } = new RawConnection(url)
  await once(socket, 'connect')
  await new Promise((resolve) => socket.write(bytes, resolve))
  socket.resetAndDestroy()
}

// A connection that was reset before it is accepted has no address. It was served as that of an unknown user, who
// shares no quote with other users, and whose place the provider cannot know.
test('500 clients that reset their connections while the process stood still cost at most three calls', async () => {
  const { gateway, asked } = await stage()
  await whileStopped(gateway, () =>
    Promise.all(Array.from({ length: 500 }, () => sendAndReset(gateway.url, quote))),
  )
  expect((await rawExchange(gateway.url, payment)).status).toBe(200)
  await pause(300)
  expect(asked('/quotes')).toBeLessThanOrEqual(3)
  // All of them are gone, and a client that stays is served.
  expect((await rawExchange(gateway.url, quote)).status).toBe(200)
})

test('the order of a caller that is gone, for a user whose place is unknown, is not sent', async () => {
  const { gateway, asked } = await stage()
  const order = post('{"pairId":"ETH_USDC","fromAmount":"0.1","toAmount":"289.645"}')
  // With a connection to the provider that is open already, an order goes out as soon as it is read.
  expect((await rawExchange(gateway.url, order)).status).toBe(200)
  await whileStopped(gateway, () =>
    Promise.all(Array.from({ length: 20 }, () => sendAndReset(gateway.url, order))),
  )
  expect((await rawExchange(gateway.url, payment)).status).toBe(200)
  await pause(300)
  expect(asked('/v3/orders')).toBe(1)
})

test.each([true, false])(
  'a client that only closed its own side, behind a whole request, is served; while the process was paused: %j',
  async (isPaused) => {
    const { gateway } = await stage({ answerAfterMs: 100 })
    const clients: RawConnection[] = []
    const send = async () => {
      for (const bytes of [
        quote,
        payment,
        post('{"pairId":"ETH_USDC","fromAmount":"0.1"}'),
      ]) {
        const client = new RawConnection(gateway.url)
        client.socket.end(bytes)
        clients.push(client)
      }
      await pause(100)
    }
    if (isPaused) await whileStopped(gateway, send)
    else await send()
    for (const client of clients) {
      expect((await client.answer()).status).toBe(200)
      await until(() => client.ended, 'the end of the connection')
    }
  },
)
