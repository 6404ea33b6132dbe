import { expect, test } from 'vitest'
import { outcomeOf } from '../support/gateways/library-program.ts'

/** How many more bytes a program has in use after `more` than after `first`, both of which it awaits. */
async function growth(
  program: string,
  {
    first,
    more,
    kind = 'heapUsed',
  }: { first: string; more: string; kind?: 'heapUsed' | 'arrayBuffers' },
): Promise<number> {
  const { code, output } = await outcomeOf(
    `${program}
    async function inUse() {
      let least = Infinity
      // V8 frees late on a loaded machine, and buffers in the background, some time after it has found them.
      for (let round = 0; round < ${kind === 'heapUsed' ? 5 : 20}; round += 1) {
        await new Promise((resolve) => setTimeout(resolve, 100))
        gc()
        least = Math.min(least, process.memoryUsage().${kind})
      }
      return least
    }
    await ${first}
    const before = await inUse()
    await ${more}
    console.log((await inUse()) - before)
    process.exit()`,
    ['--expose-gc'],
  )
  expect(code, output).toBe(0)
  return Number(output)
}

// A suite that makes one for each of its tests once kept 2.7 MB of every one of them.
test('closed gateways leave nothing in memory', async () => {
  const program = `
    async function make(count) {
      for (let made = 0; made < count; made += 1) {
        const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0 })
        await gateway.listen()
        await gateway.close()
      }
    }`
  expect(
    (await growth(program, { first: 'make(10)', more: 'make(30)' })) / 30,
  ).toBeLessThan(500_000)
})

/** A gateway whose provider answers so. */
const gatewayTo = (provider: string, settings = '') => `
  import { once } from 'node:events'
  import { createServer, request } from 'node:http'
  const provider = createServer(${provider}).listen(0, '127.0.0.1')
  // However long a test takes, its connections are kept.
  provider.keepAliveTimeout = 600_000
  await once(provider, 'listening')
  const url = 'http://127.0.0.1:' + provider.address().port
  const gateway = await createGateway({
    PORT: 0, ADMIN_PORT: 0, SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url, ${settings}
  })
  const { trafficUrl } = await gateway.listen()
  const send = (path, options, body) => new Promise((resolve, reject) => {
    const sent = request(trafficUrl + path, options, (response) => response.resume().on('close', resolve))
    sent.on('error', reject).end(body)
  })`

const givesQuotes = (
  expiry: string,
) => `(_request, response) => response.end(JSON.stringify({
  id: 'q' + Math.random(), pairId: 'SHIB_USDC', expiry: ${expiry},
  fromAmount: { assetId: 'SHIB', value: '1' }, toAmount: { assetId: 'USDC', value: '1' },
}))`
const byAddress = `TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'x-forwarded-for', RATE_LIMIT_PER_MINUTE: 10,
  RATE_LIMIT_BY: 'both'`
const longTarget = `'/v3/pairs/SHIB_OF_LONG_NAME/quotes?amount=' + n + '&more=' + 'm'.repeat(7_000)`
// The user writes what stands to the left of the address that the proxy added.
const longHeader = `'X-Forwarded-For': 'x'.repeat(10_000) + ', 203.0.113.111'`

test.each([
  // The text of a long number is a slice of the target that it stood in, unless it is copied.
  [
    'quotes keep no long target',
    gatewayTo(givesQuotes('Date.now() + 30_000')),
    longTarget,
    '',
  ],
  [
    'quotes that cannot be read keep no long target',
    gatewayTo(givesQuotes("'soon'")),
    longTarget,
    '',
  ],
  [
    'a rate limit keeps no long header',
    gatewayTo("(_, it) => it.end('[]')", byAddress),
    "'/v3/pairs'",
    longHeader,
  ],
])('%s alive', async (_what, program, path, header) => {
  const asking = `${program}
    let n = 10 ** 15
    async function ask(count) {
      for (const last = n + count; n < last; n += 1)
        await send(${path}, { headers: { 'App-Name': 'tests${header && "' + n + '"}', ${header} } })
    }`
  expect(
    (await growth(asking, { first: 'ask(300)', more: 'ask(1_000)' })) / 1_000,
  ).toBeLessThan(5_000)
})

// undici's controller of a request leads to its body.
test('an idle connection to an upstream does not keep the body of its last request', async () => {
  const program = `
    const connections = new Set()
    const waiting = []
    ${gatewayTo(`(request, response) => {
      connections.add(request.socket)
      request.resume().on('end', () => {
        waiting.push(response)
        // Each needs a connection of its own.
        if (waiting.length === 50) waiting.splice(0).forEach((one) => one.end('{}'))
      })
    }`)}
    async function post(bytes) {
      const one = () => send('/checkouts', { method: 'POST', agent: false }, Buffer.alloc(bytes, 'x'))
      await Promise.all(Array.from({ length: 50 }, one))
      if (connections.size !== 50) throw new Error(connections.size + ' connections')
    }`
  const bytes = await growth(program, {
    first: 'post(10)',
    more: 'post(60_000)',
    kind: 'arrayBuffers',
  })
  expect(bytes / 50).toBeLessThan(10_000)
})
