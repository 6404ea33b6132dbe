import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { append, newFolder, noted, opened } from '../journal/disk-support.ts'
import { termsOf } from '../support/clients/orders.ts'
import { ask } from '../support/clients/quotes.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { startProgram } from '../support/gateways/program.ts'
import { restartStage } from '../support/gateways/restarts.ts'
import { listening } from '../support/machine/listening.ts'

/** Passes the check of the arguments, and fails where the gateway first uses it: after the folder was opened. */
function limiterThatFails() {
  let reads = 0
  return {
    get perMinute() {
      reads += 1
      if (reads > 1) throw new Error('no limit today')
      return 100
    },
    take: () => Promise.reject(new Error('never asked')),
  }
}

test.each([
  ['clean', 409],
  // This order, which does not say what it expects to get, is sent then.
  ['that of a crash', 201],
] as const)(
  'a gateway of which a part fails while it is built leaves the folder as the end before, %s, has left it',
  async (end, status) => {
    const stage = await restartStage()
    const first = await stage.start()
    const quote = await first.quote()
    if (end === 'clean') await first.close()
    else await stage.kill(first)
    stage.clock.advance(30_000)
    const failed = stage.start(
      { rateLimiter: limiterThatFails() },
      { RATE_LIMIT_PER_MINUTE: 100 },
    )
    await expect(failed).rejects.toThrow('no limit today')
    const third = await stage.start()
    expect(await third.state()).toMatchObject({ restored: 1, skipped: 0, setAside: 0 })
    expect((await third.order({ ...termsOf(quote), toAmount: undefined })).status).toBe(
      status,
    )
  },
)

test.each(['PORT', 'ADMIN_PORT'])(
  'a program whose %s is taken leaves its folder closed, as it found it',
  async (name) => {
    const swapBaseUrl = 'https://swap.example'
    const folder = newFolder()
    const options = { swapBaseUrl, clock: systemClock }
    const expiresAtMs = Date.now() + 60_000
    const first = await opened(folder, options)
    append(first, [noted(1, { expiresAtMs, notedAtMs: expiresAtMs - 60_000 })])
    await first.journal.close()
    const { port } = await listening(createServer())
    const own = {
      SWAP_BASE_URL: swapBaseUrl,
      STATE_DIRECTORY: folder,
      PORT: '0',
      ADMIN_PORT: '0',
    }
    const { code, stderr } = await startProgram([], { ...own, [name]: String(port) }).exit
    expect([code, stderr]).toEqual([1, expect.stringContaining('already in use')])
    const { memory } = await opened(folder, options)
    expect([memory.restored.length, memory.doubts]).toEqual([1, 0])
  },
)

describe('close()', () => {
  // It says that it could not write the folder, and the logger of the application has a defect.
  test('closes the operations listener though the end of the journal fails, and rejects', async () => {
    const directory = newFolder()
    const error = () => {
      throw new Error('the log is full')
    }
    const logger = { debug() {}, info() {}, warn() {}, error }
    const gateway = await startGateway({ STATE_DIRECTORY: directory }, { logger })
    // Its file cannot be made any more.
    rmSync(directory, { recursive: true })
    writeFileSync(directory, 'in the way')
    expect(
      (await ask(gateway.url, { path: '/v3/pairs/ETH_USDC/quotes?amount=1' })).status,
    ).toBe(200)
    await expect(gateway.close()).rejects.toThrow('the log is full')
    await expect(fetch(`${gateway.operationsUrl}/healthz`)).rejects.toThrow(
      'fetch failed',
    )
  })
})
