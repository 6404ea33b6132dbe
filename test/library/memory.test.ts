import { expect, test } from 'vitest'
import { outcomeOf } from '../support/gateways/library-program.ts'

/** For a program: what is in use once V8 has had time to free what it may. On a loaded machine much of it is late. */
const heapInUse = `
  async function heapInUse() {
    let least = Infinity
    for (let round = 0; round < 5; round += 1) {
      await new Promise((resolve) => setTimeout(resolve, 100))
      gc()
      least = Math.min(least, process.memoryUsage().heapUsed)
    }
    return least
  }`

// A suite that makes one for each of its tests once kept 2.7 MB of every one of them.
test('closed gateways leave nothing in memory', async () => {
  const { code, output } = await outcomeOf(
    `${heapInUse}
    async function afterMore(count) {
      for (let made = 0; made < count; made += 1) {
        const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0 })
        await gateway.listen()
        await gateway.close()
      }
      return heapInUse()
    }
    const before = await afterMore(10)
    console.log(((await afterMore(30)) - before) / 30 / 1e6)
    `,
    ['--expose-gc'],
  )
  expect(code, output).toBe(0)
  expect(Number(output)).toBeLessThan(0.5)
})

/** Of what `ask`, which the program makes, leaves behind in memory. */
async function bytesKeptByEach(program: string): Promise<number> {
  const measured = `${heapInUse}
    async function afterMore(count) {
      for (let asked = 0; asked < count; asked += 1) await ask()
      return heapInUse()
    }
    const before = await afterMore(300)
    console.log(((await afterMore(1_000)) - before) / 1_000)
    process.exit()`
  const { code, output } = await outcomeOf(program + measured, ['--expose-gc'])
  expect(code, output).toBe(0)
  return Number(output)
}

// The text of a long number is a slice of the target that it stood in, unless it is copied.
test.each([
  ['can be read', 30_000],
  ['cannot be read', 'soon'],
])('quotes that %s keep nothing of long targets alive', async (_what, expiry) => {
  const bytes = await bytesKeptByEach(`
    import { once } from 'node:events'
    import { createServer, get } from 'node:http'
    const expiry = ${JSON.stringify(expiry)}
    const provider = createServer((_request, response) => {
      response.end(JSON.stringify({
        id: 'q' + Math.random(), pairId: 'SHIB_USDC',
        fromAmount: { assetId: 'SHIB', value: '1' }, toAmount: { assetId: 'USDC', value: '1' },
        expiry: typeof expiry === 'number' ? Date.now() + expiry : expiry,
      }))
    }).listen(0, '127.0.0.1')
    await once(provider, 'listening')
    const gateway = await createGateway({
      PORT: 0, ADMIN_PORT: 0, SWAP_BASE_URL: 'http://127.0.0.1:' + provider.address().port,
    })
    const { trafficUrl } = await gateway.listen()
    let amount = 10 ** 15
    const more = 'm'.repeat(7_000)
    const ask = () => new Promise((resolve, reject) => {
      amount += 1
      const target = '/v3/pairs/SHIB_OF_LONG_NAME/quotes?amount=' + amount + '&more=' + more
      get(trafficUrl + target, { headers: { 'App-Name': 'tests' } }, (response) => response.resume().on('end', resolve)).on('error', reject)
    })
    `)
  expect(bytes).toBeLessThan(5_000)
})

// The client writes what stands to the left of the address that the proxy added.
test('a rate limit does not keep the long header line that an address came in', async () => {
  const bytes = await bytesKeptByEach(`
    import { once } from 'node:events'
    import { createServer, get } from 'node:http'
    const provider = createServer((_request, response) => response.end('[]')).listen(0, '127.0.0.1')
    await once(provider, 'listening')
    const gateway = await createGateway({
      PORT: 0, ADMIN_PORT: 0, SWAP_BASE_URL: 'http://127.0.0.1:' + provider.address().port,
      TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'x-forwarded-for', RATE_LIMIT_PER_MINUTE: 10, RATE_LIMIT_BY: 'both',
    })
    const { trafficUrl } = await gateway.listen()
    let application = 0
    const ask = () => new Promise((resolve, reject) => {
      application += 1
      const headers = { 'App-Name': 'tests' + application, 'X-Forwarded-For': 'x'.repeat(10_000) + ', 203.0.113.111' }
      get(trafficUrl + '/v3/pairs', { headers }, (response) => response.resume().on('end', resolve)).on('error', reject)
    })
    `)
  expect(bytes).toBeLessThan(5_000)
})

// undici's controller of a request leads to its body.
test('an idle connection to an upstream does not keep the body of its last request', async () => {
  const { code, output } = await outcomeOf(
    `
    import { once } from 'node:events'
    import { createServer, request } from 'node:http'
    const connections = new Set()
    const waiting = []
    const provider = createServer((request, response) => {
      connections.add(request.socket)
      request.resume().on('end', () => {
        waiting.push(response)
        // Each needs a connection of its own.
        if (waiting.length === 50) waiting.splice(0).forEach((one) => one.end('{}'))
      })
    }).listen(0, '127.0.0.1')
    // However long this takes, the second fifty find the connections of the first.
    provider.keepAliveTimeout = 600_000
    await once(provider, 'listening')
    const gateway = await createGateway({
      PORT: 0, ADMIN_PORT: 0, PAYMENTS_BASE_URL: 'http://127.0.0.1:' + provider.address().port,
    })
    const { trafficUrl } = await gateway.listen()
    const ask = (bytes) => new Promise((resolve, reject) => {
      request(trafficUrl + '/checkouts', { method: 'POST', agent: false }, (response) => response.resume().on('close', resolve))
        .on('error', reject).end(Buffer.alloc(bytes, 'x'))
    })
    async function afterBodiesOf(bytes) {
      await Promise.all(Array.from({ length: 50 }, () => ask(bytes)))
      let least = Infinity
      // V8 frees buffers in the background, some time after the collection that found them.
      for (let round = 0; round < 20; round += 1) {
        await new Promise((resolve) => setTimeout(resolve, 100))
        gc()
        least = Math.min(least, process.memoryUsage().arrayBuffers)
      }
      return least
    }
    const before = await afterBodiesOf(10)
    const after = await afterBodiesOf(60_000)
    console.log(JSON.stringify({ connections: connections.size, bytes: (after - before) / 50 }))
    process.exit()
    `,
    ['--expose-gc'],
  )
  expect(code, output).toBe(0)
  const { connections, bytes } = JSON.parse(output) as { connections: number; bytes: number }
  expect(connections).toBe(50)
  expect(bytes).toBeLessThan(10_000)
})
