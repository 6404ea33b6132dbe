import fs, { mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { UpstreamFailure } from '../../src/http/failure.ts'
import type { OpenFile } from '../../src/memory/appended-file.ts'
import { DiskJournal, type DiskOptions } from '../../src/memory/disk.ts'
import { type KeyKeeper, keptForMs, maxKeys, OrderKeys } from '../../src/memory/keys.ts'
import { SharedOrderKeys } from '../../src/memory/shared-keys.ts'
import type { SharedStore } from '../../src/memory/store.ts'
import { KeyedOrders } from '../../src/orders/keyed-orders.ts'
import type { WholeAnswer } from '../../src/upstream/fetch.ts'
import { asIfKilled, newFolder, noHolds, noteds } from '../journal/disk-support.ts'
import { deferred } from '../support/clients/quotes.ts'
import { pause } from '../support/gateways/between.ts'
import { keptLog } from '../support/observing/log-lines.ts'
import { MemoryStore } from '../support/stores/memory-store.ts'

const noQuotes = {
  restore: () => false,
  doubtRestored() {},
  doubtsRestored: false,
  live: () => [],
  tidy: () => 0,
}
const answer = (status = 201, body: Buffer = Buffer.from('x')) =>
  ({ status, reason: '', rawHeaders: [], body }) as unknown as WholeAnswer
const limited = () => answer(429)
const keysWith = (keepers: KeyKeeper[], events = new Events()) =>
  new OrderKeys({ keepers, orderMs: 15_000, clock: systemClock, events })

/** Returns whether the order was sent. */
async function click(
  keys: OrderKeys,
  key = 'k',
  send: () => WholeAnswer | Promise<WholeAnswer> = answer,
  events = new Events(),
): Promise<boolean> {
  const order = { key, headers: [], bytes: Buffer.from('b'), terms: undefined }
  let isSent = false
  const keyed = new KeyedOrders({ salt: '', keys, events })
  await keyed.once({ target: '/', endsAs() {} }, order, async () => {
    isSent = true
    return send()
  })
  return isSent
}

describe('a process keeps 10,000 keys with 32 MiB of answers: keys in memory', () => {
  /** `said`: what the events said became of keys. */
  const withEvents = () => {
    const said: string[] = []
    const events = new Events([
      { orderKeyed: (result: string) => void said.push(result) },
    ])
    return { keys: keysWith([], events), events, said }
  }

  test.each([
    [10_000, 1],
    [512, 65_536],
  ])(
    'past %i with answers of %i bytes make room, those first that were answered first',
    async (fitting, bytes) => {
      const { keys, said } = withEvents()
      const large = () => answer(201, Buffer.alloc(bytes))
      for (let number = 0; number < fitting + 3; number += 1)
        await click(keys, `k${number}`, large)
      expect([keys.size, said.filter((one) => one === 'displaced').length]).toEqual([
        fitting,
        3,
      ])
      expect(await click(keys, 'k3')).toBe(false)
      expect(await click(keys, 'k2')).toBe(true)
    },
  )

  test('are all written down, in parts, though one is answered meanwhile', async () => {
    const { keys } = withEvents()
    const { promise, resolve } = deferred<WholeAnswer>()
    const clicks = ['first', 'second'].map((key) => click(keys, key, () => promise))
    await pause(0)
    let written = 0
    for (const _ of keys.live()) {
      written += 1
      resolve(answer())
      await Promise.all(clicks)
    }
    expect(written).toBe(2)
  })

  test('whose orders are on their way or have no known answer stay, and where there are only these no new one is taken', async () => {
    const { keys, events, said } = withEvents()
    await click(keys, 'answered')
    const lost = new UpstreamFailure('swap', {
      fault: 'http_response_timeout',
      maybeSeen: true,
    })
    const { promise, resolve } = deferred<WholeAnswer>()
    const inFlight = click(keys, 'in-flight', () => promise)
    for (let number = 2; number < maxKeys; number += 1)
      await expect(
        click(keys, `k${number}`, () => Promise.reject(lost)),
      ).rejects.toThrow()
    // It takes the place of the only one that was answered.
    await expect(click(keys, 'k1', () => Promise.reject(lost))).rejects.toThrow()
    await expect(click(keys, 'new', answer, events)).rejects.toMatchObject({
      slug: 'saturated',
    })
    await expect(click(keys, 'k2')).rejects.toMatchObject({
      slug: 'order-outcome-unknown',
    })
    await expect(click(keys, 'in-flight')).rejects.toMatchObject({
      slug: 'order-in-progress',
    })
    expect(said.filter((one) => one === 'refused' || one === 'displaced')).toEqual([
      'displaced',
      'refused',
    ])
    expect(keys.size).toBe(maxKeys)
    resolve(answer())
    expect(await inFlight).toBe(true)
    expect(await click(keys, 'new')).toBe(true)
  })
})

/** A store that runs what it is asked; `how` says what becomes of its replies. */
class Store {
  readonly keyPrefix = ''
  readonly #memory = new MemoryStore(systemClock.nowMs)
  how: 'ok' | 'loses replies' | 'away' = 'ok'
  asked = 0

  async insist(
    ...[operation, commands]: Parameters<SharedStore['insist']>
  ): Promise<never> {
    this.asked += 1
    const said =
      this.how === 'away' ? undefined : await commands(this.#memory.clientOf(operation))
    return (this.how === 'ok' ? said : undefined) as never
  }
}

describe('in the shared store a displaced key is still found: a key there', () => {
  const replica = (store: Store) => keysWith([new SharedOrderKeys(store, keptForMs)])
  const atOnce = () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
  }

  test.each(['loses replies', 'away'] as const)(
    'is not freed by the late word of an earlier order, once it was claimed and answered again: %s',
    async (how) => {
      atOnce()
      const store = new Store()
      const [a, b] = [replica(store), replica(store)]
      store.how = how
      await click(a, 'k', limited)
      store.how = 'ok'
      expect(await click(a)).toBe(true)
      await vi.advanceTimersByTimeAsync(1_100)
      expect(await click(b)).toBe(false)
    },
  )

  test('is still found by a process that had to displace it', async () => {
    const keys = replica(new Store())
    for (let number = 0; number <= maxKeys; number += 1) await click(keys, `k${number}`)
    expect(keys.size).toBe(maxKeys)
    expect(await click(keys, 'k0')).toBe(false)
  })

  test('is freed once the store is back, and costs one question a second while it is away', async () => {
    atOnce()
    const store = new Store()
    const [a, b] = [replica(store), replica(store)]
    store.how = 'loses replies'
    for (let round = 0; round < 100; round += 1) await click(a, 'k', limited)
    store.how = 'away'
    store.asked = 0
    await vi.advanceTimersByTimeAsync(3_000)
    expect(store.asked).toBeLessThan(5)
    store.how = 'ok'
    await vi.advanceTimersByTimeAsync(1_100)
    expect(await click(b)).toBe(true)
  })
})

describe('with the folder keys outlive the process: a key in a folder', () => {
  const started = async (directory: string, options: Partial<DiskOptions> = {}) => {
    const { logger: log, lines } = await keptLog()
    const events = new Events()
    const basics = { clock: systemClock, log, events }
    const swapBaseUrl = 'https://swap.example'
    const own = { directory, swapBaseUrl, salt: undefined, ...basics }
    const disk = await DiskJournal.open({ ...own, ...options })
    const keys = keysWith([disk.keeper])
    await disk.read(noQuotes, keys, noHolds)
    onTestFinished(() => disk.close())
    return { disk, keys, lines }
  }

  test('waits for its own line on a slow disk, not for those that come later, nor for quotes', async () => {
    const slowly: OpenFile = async (path, flags, mode) => {
      const file = await open(path, flags, mode)
      const appendFile = async (bytes: Buffer) => {
        await pause(5)
        await file.appendFile(bytes)
      }
      return {
        appendFile,
        truncate: (bytes) => file.truncate(bytes),
        datasync: () => file.datasync(),
        close: () => file.close(),
      }
    }
    const { disk, keys } = await started(newFolder(), { openFile: slowly })
    await click(keys)
    // More wait at any time than are written at once.
    const waitingQuotes = noteds(0, 2_000)
    const fill = () => {
      while (disk.facts.waiting < 2_000)
        for (const record of waitingQuotes) disk.append(record)
    }
    const filling = setInterval(fill, 1)
    onTestFinished(() => clearInterval(filling))
    const took: number[] = []
    const claims: Promise<void>[] = []
    for (let number = 0; number < 500; number += 1) {
      const beganAtMs = performance.now()
      claims.push(
        disk.keeper
          .claim(`id-${number}`, '{}')
          .then(() => void took.push(performance.now() - beganAtMs)),
      )
      await pause(1)
    }
    await Promise.all(claims)
    // With a line each millisecond there are always later ones.
    expect(took.toSorted((one, other) => one - other)[250]).toBeLessThan(500)
  })

  test('that could not be read is set aside, and not written over', async () => {
    const directory = newFolder()
    const first = await started(directory)
    await click(first.keys)
    await first.disk.close()
    const real = fs.createReadStream
    fs.createReadStream = ((path: string) => {
      const stream = real(path)
      stream.once('data', () => stream.destroy(new Error('EIO')))
      return stream
    }) as typeof real
    syncBuiltinESMExports()
    const second = await started(directory)
    fs.createReadStream = real
    syncBuiltinESMExports()
    await click(second.keys, 'b')
    const aside =
      readdirSync(directory).find((name) => name.startsWith('set-aside-')) ?? ''
    const text = readFileSync(join(directory, aside, 'journal.ndjson'), 'utf8')
    expect(text).toContain('answered')
    expect(second.lines()).toMatchObject([
      { msg: 'STATE_DIRECTORY could not be read' },
      { why: ['it could not be read to its end'] },
      { lines: 1 },
    ])
  })

  test('is not written over by a gateway that was closed before', async () => {
    const directory = newFolder()
    const first = await started(directory)
    const inTheWay = join(directory, 'journal.ndjson.begun')
    mkdirSync(inTheWay)
    await click(first.keys, 'a')
    await first.disk.close()
    rmdirSync(inTheWay)
    const second = await started(directory)
    await click(second.keys, 'b')
    await pause(2_300)
    await click(second.keys, 'c')
    await second.disk.close()
    const third = await started(directory)
    expect([await click(third.keys, 'b'), await click(third.keys, 'c')]).toEqual([
      false,
      false,
    ])
  })

  test('is one of as many as are kept, also after a restart', async () => {
    const directory = newFolder()
    const first = await started(directory)
    const text = '{"digest":"d","state":"large"}'
    const claims = Array.from({ length: 15_000 }, (_, number) =>
      first.disk.keeper.claim(`id-${number}`, text),
    )
    await Promise.all(claims)
    const { keys } = await started(asIfKilled(directory))
    expect(keys.size).toBe(maxKeys)
    await click(keys)
    expect(keys.size).toBe(maxKeys)
  })
})

test('an answer that the folder has lost is looked for in the store, and the order is not sent again', async () => {
  const stored = new Map<string, string>()
  const find = async (id: string) => {
    const text = stored.get(id)
    return text === undefined ? undefined : { text, ageMs: 0 }
  }
  const keep = async (id: string, text: string | undefined) =>
    void (text && stored.set(id, text))
  const store: KeyKeeper = {
    find,
    claim: async (id, text) => (await find(id)) ?? keep(id, text),
    settle: keep,
  }
  const claims: [id: string, text: string][] = []
  const folder: KeyKeeper = {
    claim: async (id, text) => void claims.push([id, text]),
    settle: async () => {},
  }
  expect(await click(keysWith([folder, store]))).toBe(true)
  const restarted = keysWith([folder, store])
  for (const [id, text] of claims) restarted.restore(id, text, 0)
  expect(await click(restarted)).toBe(false)
})
