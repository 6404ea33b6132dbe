import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { recordingUpstream, until } from '../support/gateways/between.ts'
import { killPrograms, startProgram } from '../support/gateways/program.ts'
import { newFolder } from './disk-support.ts'

afterEach(killPrograms)

const body = '{"pairId":"ETH_USDC","fromAmount":"0.1","toAddress":"0xab"}'
const order = (url: string, key: string) =>
  rawExchange(url, post(body, { headers: ['App-Name: wallet', `Idempotency-Key: ${key}`] }))

/** A provider that never answers an order with a key of these beginnings. */
async function provider() {
  const upstream = await recordingUpstream(({ headers }, response) => {
    const key = String(headers['idempotency-key'])
    if (key.startsWith('hang')) return
    if (key.startsWith('full')) response.writeHead(429).end()
    else response.writeHead(201).end(`{"for":"${key}"}`)
  })
  return {
    upstream,
    sent: (key: string) => upstream.requests.filter(({ headers }) => headers['idempotency-key'] === key),
  }
}

async function start(swapUrl: string, folder: string, settings: Record<string, string> = {}) {
  const program = startProgram([], {
    SWAP_BASE_URL: swapUrl,
    STATE_DIRECTORY: folder,
    PORT: '0',
    ADMIN_PORT: '0',
    LOG_FORMAT: 'json',
    ...settings,
  })
  const [, url = ''] = await program.says(/"trafficUrl":"([^"]+)"/)
  const kill = async () => {
    program.child.kill('SIGKILL')
    await program.exit
  }
  const stop = async () => {
    program.child.kill('SIGTERM')
    await program.exit
  }
  return { url, kill, stop }
}

it('after kill -9 an answered key is answered again, one that was sent is unknown, one that was freed is free', async () => {
  const folder = newFolder()
  const { upstream, sent } = await provider()
  const first = await start(upstream.url, folder)
  expect((await order(first.url, 'done')).status).toBe(201)
  expect((await order(first.url, 'full')).status).toBe(429)
  void order(first.url, 'hang').catch(() => {})
  await until(() => sent('hang').length === 1, 'the order at the provider')
  await first.kill()

  const second = await start(upstream.url, folder)
  const again = await order(second.url, 'done')
  expect([again.status, again.body.toString()]).toEqual([201, '{"for":"done"}'])
  expectProblem(await order(second.url, 'hang'), 409, 'order-outcome-unknown')
  expect((await order(second.url, 'full')).status).toBe(429)
  expect(['done', 'hang', 'full'].map((key) => sent(key).length)).toEqual([1, 1, 2])
  await second.kill()

  // Also the process after that.
  const third = await start(upstream.url, folder)
  expectProblem(await order(third.url, 'hang'), 409, 'order-outcome-unknown')
  expect((await order(third.url, 'done')).status).toBe(201)
  expect(statSync(join(folder, 'keys.ndjson')).mode & 0o777).toBe(0o600)
})

it('a torn line and garbage cost no other key', async () => {
  const folder = newFolder()
  const { upstream, sent } = await provider()
  const first = await start(upstream.url, folder)
  await order(first.url, 'one')
  await first.kill()
  const file = join(folder, 'keys.ndjson')
  appendFileSync(file, 'no json\n\u0000\u0001\n{"key":"x","at":"y"}\n{"key":"torn","at":1,"is":{"dig')
  const second = await start(upstream.url, folder)
  await order(second.url, 'two')
  await second.kill()
  expect(readFileSync(file, 'utf8')).not.toContain('no json')
  const third = await start(upstream.url, folder)
  for (const key of ['one', 'two']) {
    expect((await order(third.url, key)).body.toString()).toBe(`{"for":"${key}"}`)
    expect(sent(key)).toHaveLength(1)
  }
})

it('the file is written again when it is twice what is alive in it', async () => {
  const folder = newFolder()
  const { upstream } = await provider()
  const { url } = await start(upstream.url, folder)
  // Each is claimed and freed again: two lines, and none of them lives.
  for (let round = 0; round < 300; round += 1)
    await Promise.all(Array.from({ length: 32 }, (_, index) => order(url, `full-${round}-${index}`)))
  expect(statSync(join(folder, 'keys.ndjson')).size).toBeLessThan(1_200_000)
})

it('an order that still waits for a connection when the drain ends is free in the next process', async () => {
  const folder = newFolder()
  const { upstream, sent } = await provider()
  const settings = { UPSTREAM_CONNECTIONS: '1', DRAIN_TIMEOUT_MS: '300' }
  const first = await start(upstream.url, folder, settings)
  void order(first.url, 'hang').catch(() => {})
  await until(() => sent('hang').length === 1, 'the order at the provider')
  void order(first.url, 'waits').catch(() => {})
  await until(() => readFileSync(join(folder, 'keys.ndjson'), 'utf8').split('\n').length > 2, 'its claim')
  await first.stop()
  const second = await start(upstream.url, folder)
  expect((await order(second.url, 'waits')).status).toBe(201)
  expectProblem(await order(second.url, 'hang'), 409, 'order-outcome-unknown')
})
