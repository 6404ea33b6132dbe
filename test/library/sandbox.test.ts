import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import request from 'supertest'
import { afterEach, describe, expect, test } from 'vitest'
import { createGateway, type Gateway } from '../../src/index.ts'
import { type Sandbox, SandboxError, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.ts'

const closing: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const one of closing.splice(0).reverse()) await one.close()
})

async function behindGateway(
  options: SandboxOptions = {},
): Promise<{ sandbox: Sandbox; gateway: Gateway; ask: () => request.Test }> {
  const sandbox = await startSandbox(options)
  const { url } = sandbox
  const { clock } = options
  const gateway = await createGateway({ SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url }, clock && { clock })
  closing.push(sandbox, gateway)
  const ask = () =>
    request(gateway.listener).get('/v3/pairs/ETH_USDC/quotes?amount=0.1').set('App-Name', 'tests')
  return { sandbox, gateway, ask }
}

const orderFor = (quote: { pairId: string; toAmount: { value: string } }) => ({
  pairId: quote.pairId,
  fromAmount: 0.1,
  toAmount: quote.toAmount.value,
  toAddress: '0xto',
})

describe('another team asks what happens if its quote expires', () => {
  test('with a lifetime of 50 ms', async () => {
    const { sandbox, gateway, ask } = await behindGateway({ quoteLifetimeMs: 50, prices: { ETH_USDC: 2000 } })
    const { body: quote } = await ask().expect(200)
    expect(quote.toAmount.value).toBe('200')
    await expect.poll(() => Date.now()).toBeGreaterThan(quote.expiry)
    const post = request(gateway.listener).post('/v3/orders/float').set('App-Name', 'tests')
    const { body: problem } = await post.send(orderFor(quote)).expect(409)
    expect(problem).toMatchObject({
      quoteId: quote.id,
      requote: expect.stringContaining('/v3/pairs/ETH_USDC'),
    })
    // No order reached the provider.
    expect(sandbox.requests[0]?.headers).toMatchObject({ 'app-name': 'tests' })
    expect(new Set(sandbox.requests.map(({ method }) => method))).toEqual(new Set(['GET']))
  })

  test('with its own clock, without any waiting', async () => {
    const clock = { ms: Date.UTC(2026, 0, 1), nowMs: () => clock.ms }
    const { gateway, ask } = await behindGateway({ clock })
    const { body: quote } = await ask().expect(200)
    expect(quote.expiry).toBe(clock.ms + 30_000)
    clock.ms += 40_000
    const post = request(gateway.listener).post('/v3/orders/float').set('App-Name', 'tests')
    await post.send(orderFor(quote)).expect(409)
    expect((await ask().expect(200)).body.id).not.toBe(quote.id)
  })

  test('and what if the provider fails, from the start or from now on', async () => {
    const { sandbox, ask } = await behindGateway({ faults: { errorRate: 1, scope: 'swap' } })
    await ask().expect(503)
    expect(sandbox.faults({ errorRate: 0, latencyMs: 5 })).toMatchObject({ errorRate: 0, latencyMs: 5 })
    await ask().expect(200)
  })
})

describe('startSandbox()', () => {
  test('refuses an unknown option, and lists the options', async () => {
    const options = { quoteLifetime: 50 } as SandboxOptions
    const refused = startSandbox(options)
    await expect(refused).rejects.toThrow('unknown option quoteLifetime: the options are host, port,')
    await expect(refused).rejects.toThrow(SandboxError)
  })

  test.each([
    ['http://127.0.0.1', 'options must be an object'],
    [null, 'options must be an object'],
    [[], 'options must be an object'],
    [new URL('http://127.0.0.1'), 'options must be an object'],
    [Promise.resolve({ port: 0 }), 'options must be an object'],
    [{ host: 1 }, 'host must be an address such as 127.0.0.1'],
    [{ port: 70_000 }, 'port must be a whole number from 0 to 65535'],
    [{ port: '80' }, 'port must be a whole number'],
    [{ clock: null }, 'clock must be an object with nowMs()'],
    [{ clock: Date.now }, 'clock must be an object with nowMs()'],
    [{ faults: null }, 'faults must be an object'],
    [{ prices: 'ETH_USDC' }, 'prices must be an object'],
    [{ random: 0.5 }, 'random must be a function'],
    [{ unref: 'yes' }, 'unref must be true or false'],
    [{ quoteLifetimeMs: '50' }, 'quoteLifetimeMs must be a number'],
  ])('throws an error that says what is expected when called with %j', async (options, words) => {
    const refused = startSandbox(options as SandboxOptions)
    await expect(refused).rejects.toThrow(words)
    await expect(refused).rejects.toThrow(SandboxError)
  })

  test('treats an option that is undefined as not set', async () => {
    closing.push(await startSandbox({ port: undefined, clock: undefined, faults: undefined } as object))
  })

  test('refuses a bad fault while it runs, and keeps those that are on', async () => {
    const sandbox = await startSandbox({ faults: { latencyMs: 1 } })
    closing.push(sandbox)
    expect(() => sandbox.faults({ errorRate: 2, latencyMs: 9 })).toThrow(SandboxError)
    expect(sandbox.faults().latencyMs).toBe(1)
  })

  test.each([
    [{ faults: { errorRate: 2 } }, 'errorRate'],
    [{ quoteLifetimeMs: -1 }, 'quoteLifetimeMs'],
    [{ faults: { latency: 1 } as object }, 'latency'],
    [{ prices: { ETHUSDC: 1 } }, 'ETHUSDC is not a pair id'],
    [{ recordRequests: -1 }, 'recordRequests'],
    [{ recordRequests: Number.NaN }, 'recordRequests'],
  ])('refuses %j and names what is wrong', async (options, words) => {
    const refused = startSandbox(options)
    await expect(refused).rejects.toThrow(words)
    await expect(refused).rejects.toThrow(SandboxError)
  })

  test('rejects for a taken port and may be closed twice', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    closing.push({ close: async () => void other.close() })
    const { port } = other.address() as AddressInfo
    await expect(startSandbox({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
    const sandbox = await startSandbox()
    await Promise.all([sandbox.close(), sandbox[Symbol.asyncDispose]()])
    await expect(fetch(sandbox.url)).rejects.toThrow('fetch failed')
  })

  test('keeps its process running until it is closed, unless an option is set', async () => {
    const held = () => process.getActiveResourcesInfo().filter((kind) => kind === 'TCPServerWrap').length
    const before = held()
    closing.push(await startSandbox({ unref: true }))
    expect(held()).toBe(before)
    closing.push(await startSandbox())
    expect(held()).toBe(before + 1)
  })
})
