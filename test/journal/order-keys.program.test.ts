import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { sealLine } from '../../src/memory/records.ts'
import { post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { recordingUpstream, until } from '../support/gateways/between.ts'
import { levels } from '../support/observing/log-lines.ts'
import {
  asIfKilled,
  fileName,
  newFolder,
  opened,
  startOn,
  textOf,
} from './disk-support.ts'

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
  return { path: join(folder, fileName), provider: upstream.url, sent, start }
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

describe('the keys in the file', () => {
  it('are all there but for damaged lines, which are counted', async () => {
    const folder = newFolder()
    const first = await opened(folder)
    await first.journal.keeper.claim('one', '"claimed"')
    await first.journal.keeper.settle('one', '"done"', 0)
    appendFileSync(
      join(folder, fileName),
      `no json\n\u0000\u0001\n[1,"k",1,"x",null]\n${sealLine(['k', 'y', 'x', null])}\n[1,"k"`,
    )
    const killed = asIfKilled(folder)
    const second = await opened(killed)
    expect([...second.keys.kept]).toEqual([['one', '"done"']])
    expect(second.lines()).toMatchObject([{ level: levels.error, lines: 4 }])
    second.keys.kept.set('two', '"claimed"')
    await second.journal.keeper.claim('two', '"claimed"')
    expect([...(await opened(asIfKilled(killed))).keys.kept.keys()]).toEqual([
      'one',
      'two',
    ])
    await second.journal.close()
    expect(textOf(killed)).not.toContain('no json')
    expect([...(await opened(killed)).keys.kept.keys()]).toEqual(['one', 'two'])
  })

  it('are as few as live, and half as many and half a MiB', async () => {
    const folder = newFolder()
    const { journal } = await opened(folder)
    const text = JSON.stringify('x'.repeat(1_000))
    // Each is claimed and freed again, and none of them lives.
    for (let round = 0; round < 3_000; round += 1) {
      await journal.keeper.claim(`${round}`, text)
      await journal.keeper.settle(`${round}`, undefined, 0)
    }
    await until(() => textOf(folder).length < 530_000, 'the copy')
  })
})
