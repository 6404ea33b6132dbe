import { describe, expect, onTestFinished, test } from 'vitest'
import {
  SandboxError,
  type SandboxOptions,
  startSandbox,
} from '../../src/sandbox/sandbox.ts'
import { ownServer } from './support.ts'

async function started(options: SandboxOptions = {}) {
  const sandbox = await startSandbox(options)
  onTestFinished(() => sandbox.close())
  return sandbox
}

describe('startSandbox()', () => {
  test.each<[unknown, string]>([
    ...[
      'http://127.0.0.1',
      null,
      [],
      new URL('http://127.0.0.1'),
      Promise.resolve({ port: 0 }),
    ].map((options): [unknown, string] => [options, 'options must be an object']),
    [{ quoteLifetime: 50 }, 'unknown option quoteLifetime: the options are host, port,'],
    [{ host: 1 }, 'host must be an address'],
    [{ port: 70_000 }, 'port must be a whole number from 0 to 65535'],
    [{ port: '80' }, 'port must be a whole number'],
    [{ clock: null }, 'clock must be an object with nowMs()'],
    [{ clock: Date.now }, 'clock must be an object with nowMs()'],
    [{ faults: null }, 'faults must be an object'],
    [{ faults: { errorRate: 2 } }, 'errorRate'],
    [{ faults: { latency: 1 } }, 'latency'],
    [{ prices: 'ETH_USDC' }, 'prices must be an object'],
    [{ prices: { ETHUSDC: 1 } }, 'ETHUSDC is not a pair id'],
    [{ prices: { ETH_USDC: 0 } }, 'ETH_USDC must be a positive number'],
    [{ prices: { ETH_USDC: Number.NaN } }, 'ETH_USDC must be a positive number'],
    [{ random: 0.5 }, 'random must be a function'],
    [{ unref: 'yes' }, 'unref must be true or false'],
    [{ quoteLifetimeMs: '50' }, 'quoteLifetimeMs must be a number'],
    [{ quoteLifetimeMs: -1 }, 'quoteLifetimeMs'],
    [{ recordRequests: -1 }, 'recordRequests'],
    [{ recordRequests: Number.NaN }, 'recordRequests'],
  ])(
    'throws an error that says what is expected when called with %j: %s',
    async (options, words) => {
      const error = await startSandbox(options as SandboxOptions).catch(
        (thrown) => thrown,
      )
      expect(error).toBeInstanceOf(SandboxError)
      expect(error.message).toContain(words)
    },
  )

  test('treats an option that is undefined as not set', () =>
    started({ port: undefined, clock: undefined, faults: undefined } as object))

  test('faults() throws the same error for what is not an object', async () => {
    const { faults } = await started()
    for (const given of [null, Promise.resolve({})])
      expect(() => faults(given as object)).toThrow(SandboxError)
  })

  test('rejects for a taken port and may be closed twice', async () => {
    const { port } = await ownServer()
    await expect(startSandbox({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
    const sandbox = await startSandbox()
    await Promise.all([sandbox.close(), sandbox[Symbol.asyncDispose]()])
    await expect(fetch(sandbox.url)).rejects.toThrow('fetch failed')
  })

  test('keeps its process running until it is closed, unless an option is set', async () => {
    const held = () =>
      process.getActiveResourcesInfo().filter((kind) => kind === 'TCPServerWrap').length
    const before = held()
    await started({ unref: true })
    expect(held()).toBe(before)
    await started()
    expect(held()).toBe(before + 1)
  })
})
