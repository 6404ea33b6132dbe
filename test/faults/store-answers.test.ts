import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { valkey } from '../support/stores/valkey.ts'

/** A store that answers all scripts alike but the greeting, as one does behind a proxy that has lost count of its answers. */
async function storeThatSays(scriptAnswer: string): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.on('data', (bytes) => {
      // Commands come whole here, and each names itself once.
      for (const [, name = ''] of bytes
        .toString('latin1')
        .matchAll(/\r\n(evalsha|eval|info|xinfo|xread|xadd|set|time)\r\n/gi))
        socket.write(answers[name.toLowerCase()] ?? scriptAnswer)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  return `redis://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
}

const answers: Record<string, string> = {
  info: '$-1\r\n',
  xinfo: '-ERR no such key\r\n',
  xread: '*-1\r\n',
  xadd: '$3\r\n1-1\r\n',
  set: '+OK\r\n',
  time: '*2\r\n$1\r\n1\r\n$1\r\n1\r\n',
}

/** With a limit the first answer of the store that a request needs is that to the limit's script. */
describe.each(['0', '1000'])(
  'with RATE_LIMIT_PER_MINUTE=%s, a store whose answers are those to something else fails no quote and no order:',
  (perMinute) => {
    it.each([
      ['a number', ':1\r\n'],
      ['nothing', '*-1\r\n'],
      ['an empty list', '*0\r\n'],
      ['a word', '+OK\r\n'],
      ['three words', '*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n'],
      ['numbers', '*3\r\n:1\r\n:2\r\n:3\r\n'],
      ['lists within a list', '*2\r\n*0\r\n$-1\r\n'],
    ])('%s', async (_what, scriptAnswer) => {
      const expiry = Date.now() + 60_000
      const upstream = await recordingUpstream((request, response) => {
        if (request.method === 'POST') {
          response.writeHead(201).end('{}')
          return
        }
        const value = new URL(request.target, 'http://upstream').searchParams.get('amount')
        const fromAmount = { assetId: 'ETH', value }
        const toAmount = { assetId: 'USDC', value: '289.6' }
        response.end(JSON.stringify({ id: `q-${value}`, pairId: 'ETH_USDC', fromAmount, toAmount, expiry }))
      })
      const gateway = await startGateway({
        SWAP_BASE_URL: upstream.url,
        VALKEY_URL: await storeThatSays(scriptAnswer),
        VALKEY_TIMEOUT_MS: '5000',
        RATE_LIMIT_PER_MINUTE: perMinute,
      })
      onTestFinished(() => gateway.close())
      for (let amount = 1; amount <= 2; amount += 1) {
        await expect.poll(gateway.metrics, { timeout: 10_000 }).toMatch(/^quotegate_store_up 1$/m)
        const answer = await fetch(`${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=${amount}`, {
          headers: { 'App-Name': 'wallet' },
        })
        expect(answer.status).toBe(200)
        await expect.poll(gateway.metrics, { timeout: 10_000 }).toMatch(/^quotegate_store_up 1$/m)
        const order = await fetch(`${gateway.url}/v3/orders/float`, {
          method: 'POST',
          headers: { 'App-Name': 'wallet', 'Content-Type': 'application/json' },
          body: JSON.stringify({ quoteId: 'of-another-replica', pairId: 'ETH_USDC', fromAmount: amount }),
        })
        expect(order.status).toBe(201)
      }
    })
  },
)

/** A line to the store on which, once, before the answer that holds `before` that which held `first` comes again. */
async function lineThatRepeats(port: number, first: string, before: string): Promise<string> {
  const sockets = new Set<Socket>()
  let kept: Buffer | undefined
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1')
    for (const socket of [near, far]) sockets.add(socket.on('error', () => socket.destroy()))
    near.on('data', (bytes) => far.write(bytes))
    far.on('data', (bytes) => {
      if (bytes.includes(first)) kept = bytes
      if (bytes.includes(before) && kept !== undefined) {
        near.write(kept)
        kept = undefined
      }
      near.write(bytes)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`
}

it('a store that sends one answer twice does not make a replica serve the quote of another pair', {
  tags: ['redis-server'],
}, async () => {
  const expiry = Date.now() + 60_000
  const upstream = await recordingUpstream((request, response) => {
    const pairId = request.target.split('/')[3]
    const fromAmount = { assetId: 'ETH', value: '1' }
    const toAmount = { assetId: 'USDC', value: '289.6' }
    response.end(JSON.stringify({ id: `q-${pairId}`, pairId, fromAmount, toAmount, expiry }))
  })
  const store = await valkey()
  const line = await lineThatRepeats(store.port, 'q-ETH_USDC', 'q-BTC_USDC')
  const [here, there] = await Promise.all(
    [store.url, line].map((url) =>
      startGateway({ SWAP_BASE_URL: upstream.url, VALKEY_URL: url, VALKEY_TIMEOUT_MS: '5000' }),
    ),
  )
  for (const gateway of [here, there]) {
    onTestFinished(() => gateway?.close())
    await expect.poll(() => gateway?.metrics(), { timeout: 10_000 }).toMatch(/^quotegate_store_up 1$/m)
    for (const pairId of ['ETH_USDC', 'BTC_USDC']) {
      const answer = await fetch(`${gateway?.url}/v3/pairs/${pairId}/quotes?amount=1`, {
        headers: { 'App-Name': 'wallet' },
      })
      expect(await answer.json()).toMatchObject({ pairId })
    }
  }
})
