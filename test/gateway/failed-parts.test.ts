import { mkdirSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { closeAll } from '../../src/gateway/close-all.ts'
import { useFolder } from '../../src/state/folder.ts'
import { newFolder, opened, record, untilTrue } from '../state/support.ts'
import { termsOf } from '../support/clients/orders.ts'
import { ask } from '../support/clients/quotes.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'
import { restartStage } from '../support/gateways/restarts.ts'

afterEach(killPrograms)

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
    giveBack: () => Promise.resolve(),
  }
}

describe('a gateway of which a part fails while it is built', () => {
  test('closes the folder: the next one opens it at once, and finds a clean end', async () => {
    const stage = await restartStage()
    const first = await stage.start()
    const quote = await first.quote()
    await first.close()
    stage.clock.advance(30_000)
    const failed = stage.start({ rateLimiter: limiterThatFails() }, { RATE_LIMIT_PER_MINUTE: 100 })
    await expect(failed).rejects.toThrow('no limit today')

    const third = await stage.start()
    expect(await third.state()).toMatchObject({ restored: 1, missing: 0, setAside: 0 })
    // After a crash this order, which does not say what it expects to get, would be sent.
    expect((await third.order({ ...termsOf(quote), toAmount: undefined })).status).toBe(409)
  })

  test('leaves the folder as the crash of the one before has left it', async () => {
    const stage = await restartStage()
    const first = await stage.start()
    const quote = await first.quote()
    await stage.kill(first)
    stage.clock.advance(30_000)
    const failed = stage.start({ rateLimiter: limiterThatFails() }, { RATE_LIMIT_PER_MINUTE: 100 })
    await expect(failed).rejects.toThrow('no limit today')
    const third = await stage.start()
    expect((await third.order({ ...termsOf(quote), toAmount: undefined })).status).toBe(201)
  })
})

test.each(['PORT', 'ADMIN_PORT'])(
  'a program whose %s is taken leaves its folder closed, as it found it',
  async (name) => {
    const swapBaseUrl = 'https://swap.example'
    const folder = newFolder()
    const { note, state } = await opened(folder, { swapBaseUrl })
    note(record(1))
    await state.close()
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const { port } = other.address() as AddressInfo
    const own = { SWAP_BASE_URL: swapBaseUrl, STATE_DIRECTORY: folder, PORT: '0', ADMIN_PORT: '0' }
    const { code, stderr } = await startProgram([], { ...own, [name]: String(port) }).exit
    other.close()
    expect([code, stderr]).toEqual([1, expect.stringContaining('already in use')])
    expect((await opened(folder, { swapBaseUrl })).restored).toMatchObject({ isClean: true, records: [{}] })
  },
)

describe('close()', () => {
  // It says that it could not write the folder, and the logger of the application has a defect.
  test('closes the operations listener though the end of the folder fails, and rejects', async () => {
    const directory = newFolder()
    const failing = () => {
      throw new Error('the log is full')
    }
    const logger = { debug() {}, info() {}, warn() {}, error: failing }
    const gateway = await startGateway({ STATE_DIRECTORY: directory }, { logger })
    expect((await ask(gateway.url, { path: '/v3/pairs/ETH_USDC/quotes?amount=1' })).status).toBe(200)
    const folder = await useFolder(directory)
    await untilTrue(async () => Object(await folder.readSyncMark()).count === 1, 'the quote to be synced')
    mkdirSync(join(directory, 'synced.part'))
    await expect(gateway.close()).rejects.toThrow('the log is full')
    await expect(fetch(`${gateway.operationsUrl}/healthz`)).rejects.toThrow('fetch failed')
  })

  test('closes each part after those before it, whichever of them fails', async () => {
    const closed: string[] = []
    const part =
      (name: string, fails = false) =>
      async () => {
        closed.push(name)
        if (fails) throw new Error(`${name} hangs`)
      }
    const throwsAtOnce = () => {
      throw new Error('never')
    }
    await expect(closeAll([part('one', true), part('two')])).rejects.toThrow(/^one hangs$/)
    await expect(closeAll([throwsAtOnce, part('three', true), part('four')])).rejects.toThrow(
      'never; three hangs',
    )
    expect(closed).toEqual(['one', 'two', 'three', 'four'])
  })
})
