import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock, systemTimers } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { DiskTrouble } from '../../src/memory/disk-trouble.ts'
import { KeyFile } from '../../src/memory/key-file.ts'
import { post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { recordingUpstream, until } from '../support/gateways/between.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'
import { newFolder, startOn } from './disk-support.ts'

const body = '{"pairId":"ETH_USDC","fromAmount":"0.1","toAddress":"0xab"}'
const order = (url: string, key: string) =>
  rawExchange(
    url,
    post(body, { headers: ['App-Name: wallet', `Idempotency-Key: ${key}`] }),
  )

/** Processes that follow each other over one folder, before a provider that leaves one order without an answer. */
async function stage() {
  const folder = newFolder()
  const upstream = await recordingUpstream(({ headers }, response) => {
    const key = String(headers['idempotency-key'])
    if (key === 'full') response.writeHead(429).end()
    else if (key !== 'hang') response.writeHead(201).end(`{"for":"${key}"}`)
  })
  const sent = (key: string) =>
    upstream.requests.filter(({ headers }) => headers['idempotency-key'] === key)
  const start = async (settings = {}) => {
    const { ready, end } = startOn(folder, { SWAP_BASE_URL: upstream.url, ...settings })
    return { url: await ready(), end }
  }
  return { path: join(folder, 'keys.ndjson'), provider: upstream.url, sent, start }
}

it('after kill -9 an answered key is answered again, one that was sent is unknown, one that was freed is free', async () => {
  const { path, provider, sent, start } = await stage()
  const first = await start()
  expect((await order(first.url, 'done')).status).toBe(201)
  expect((await order(first.url, 'full')).status).toBe(429)
  void order(first.url, 'hang').catch(() => {})
  await until(() => sent('hang').length === 1, 'the order at the provider')
  await first.end('SIGKILL')

  const second = await start()
  const again = await order(second.url, 'done')
  expect([again.status, again.body.toString()]).toEqual([201, '{"for":"done"}'])
  expectProblem(await order(second.url, 'hang'), 409, 'order-outcome-unknown')
  expect((await order(second.url, 'full')).status).toBe(429)
  expect(['done', 'hang', 'full'].map((key) => sent(key).length)).toEqual([1, 1, 2])
  await second.end('SIGKILL')

  // Also the process after that.
  const third = await start()
  expectProblem(await order(third.url, 'hang'), 409, 'order-outcome-unknown')
  expect((await order(third.url, 'done')).status).toBe(201)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  await third.end('SIGKILL')

  // Another provider knows nothing of it.
  const elsewhere = await start({ SWAP_BASE_URL: `${provider}/other` })
  expect((await order(elsewhere.url, 'done')).status).toBe(201)
  expect(sent('done')).toHaveLength(2)
})

it('an order that still waits for a connection when the drain ends is free in the next process', async () => {
  const { path, sent, start } = await stage()
  const first = await start({ UPSTREAM_CONNECTIONS: '1', DRAIN_TIMEOUT_MS: '300' })
  void order(first.url, 'hang').catch(() => {})
  await until(() => sent('hang').length === 1, 'the order at the provider')
  void order(first.url, 'waits').catch(() => {})
  await until(() => readFileSync(path, 'utf8').split('\n').length > 2, 'its claim')
  await first.end('SIGTERM')
  const second = await start()
  expect((await order(second.url, 'waits')).status).toBe(201)
  expectProblem(await order(second.url, 'hang'), 409, 'order-outcome-unknown')
})

describe('the file of the keys', () => {
  /** What its owner keeps is in `kept`. `onLive`: all of it is about to be written. */
  async function keyFile(
    directory: string,
    onLive: () => void = () => {},
    timers = systemClock.timers,
  ) {
    const kept = new Map<string, string>()
    const log = await keptLog()
    const clock = { ...systemClock, timers }
    const trouble = new DiskTrouble(systemClock, new Events())
    const folder = { trouble, mustBeOurs: async () => {} }
    const file = new KeyFile({ directory, clock, log: log.logger, folder })
    await file.read({
      restore: (id, text) => kept.set(id, text),
      release: (id) => kept.delete(id),
      live() {
        onLive()
        return [...kept].map(([id, text]) => ({ id, text, ageMs: 0 }))
      },
    })
    onTestFinished(() => file.close())
    return { file, kept, log }
  }

  it('keeps every other key where it has a torn line and garbage', async () => {
    const folder = newFolder()
    const path = join(folder, 'keys.ndjson')
    const first = await keyFile(folder)
    await first.file.claim('one', '"claimed"')
    await first.file.settle('one', '"done"', 0)
    await first.file.close()
    appendFileSync(
      path,
      'no json\n\u0000\u0001\n{"key":"x","at":"y"}\n{"key":"torn","at":1,"is":{"dig',
    )
    const second = await keyFile(folder)
    expect([...second.kept]).toEqual([['one', '"done"']])
    expect(second.log.lines()).toMatchObject([{ level: levels.warn, lines: 4 }])
    second.kept.set('two', '"claimed"')
    await second.file.claim('two', '"claimed"')
    await second.file.close()
    expect(readFileSync(path, 'utf8')).not.toContain('no json')
    expect([...(await keyFile(folder)).kept.keys()]).toEqual(['one', 'two'])
  })

  it('has a key that came while all was written again because the disk had failed', async () => {
    const folder = newFolder()
    const inTheWay = join(folder, 'keys.ndjson.new')
    mkdirSync(inTheWay)
    const later = () => {
      kept.set('late', '"claimed"')
      void file.claim('late', '"claimed"')
    }
    let isFirst = true
    const { file, kept } = await keyFile(folder, () => {
      if (isFirst) queueMicrotask(later)
      isFirst = false
    })
    await file.claim('early', '"claimed"')
    rmdirSync(inTheWay)
    const path = join(folder, 'keys.ndjson')
    await until(
      () => existsSync(path) && readFileSync(path, 'utf8').includes('late'),
      'the key',
    )
  })

  it('is waited for a second at most while the disk hangs, and then no more until it works again', async () => {
    const folder = newFolder()
    const fresh = join(folder, 'keys.ndjson.new')
    // Who opens it to write waits for a reader.
    execFileSync('mkfifo', [fresh])
    const waits: number[] = []
    const { file } = await keyFile(folder, undefined, {
      ...systemTimers,
      setTimeout: (onTime, ms) => {
        waits.push(ms)
        return systemTimers.setTimeout(onTime, 1)
      },
    })
    await file.claim('one', '"claimed"')
    await file.claim('two', '"claimed"')
    expect(waits).toEqual([1_000])
    // The disk works again.
    const reader = openSync(fresh, constants.O_RDONLY | constants.O_NONBLOCK)
    onTestFinished(() => closeSync(reader))
    rmSync(fresh)
    const path = join(folder, 'keys.ndjson')
    await until(() => existsSync(path), 'the file')
  })

  it('is written again when it is twice what is alive in it', async () => {
    const folder = newFolder()
    const { file } = await keyFile(folder)
    // Each is claimed and freed again, and none of them lives.
    for (let round = 0; round < 3_000; round += 1) {
      await file.claim(`${round}`, JSON.stringify('x'.repeat(1_000)))
      await file.settle(`${round}`, undefined, 0)
    }
    expect(statSync(join(folder, 'keys.ndjson')).size).toBeLessThan(1_060_000)
  })
})
