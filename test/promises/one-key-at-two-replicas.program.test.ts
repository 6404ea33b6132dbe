import type { ServerResponse } from 'node:http'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { SharedOrderKeys } from '../../src/memory/shared-keys.ts'
import { newFolder } from '../journal/disk-support.ts'
import { post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import {
  ask,
  counted,
  giveQuote,
  quoteBody,
  quotePath,
} from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import {
  gatewayWith,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'
import { eventually } from '../support/gateways/replicas.ts'
import { valkey } from '../support/stores/valkey.ts'

const body = '{"pairId":"ETH_USDC","fromAmount":"0.1","toAddress":"0xab"}'
const order = (gateway: { url: string }, key: string) =>
  rawExchange(
    gateway.url,
    post(body, { headers: ['App-Name: wallet', `Idempotency-Key: ${key}`] }),
  )

async function started(settings: Record<string, string>) {
  const gateway = await gatewayWith(settings)
  await eventually(
    'the store to be up',
    async () => (await counted(gateway, 'quotegate_store_up')) === 1,
  )
  return gateway
}

async function replicas(take: (response: ServerResponse) => void) {
  const store = await valkey()
  const upstream = await recordingUpstream((_request, response) => take(response))
  const start = () => started({ SWAP_BASE_URL: upstream.url, VALKEY_URL: store.url })
  return { store, upstream, start, a: await start(), b: await start() }
}

describe('a key that replicas share', { tags: ['redis-server'] }, () => {
  it('one key is one order at two replicas, also when both get it in the same moment', async () => {
    const { a, b, upstream } = await replicas((response) => {
      const id = upstream.requests.length
      setTimeout(() => response.writeHead(201).end(`{"id":"${id}"}`), 20)
    })
    for (let round = 0; round < 25; round += 1) {
      const both = await Promise.all([order(a, `k${round}`), order(b, `k${round}`)])
      const [taken] = both.filter(({ status }) => status === 201)
      expect(taken).toBeDefined()
      for (const other of both)
        if (other.status !== 201) expectProblem(other, 409, 'order-in-progress')
      for (const again of [await order(a, `k${round}`), await order(b, `k${round}`)])
        expect([again.status, again.body.toString()]).toEqual([
          201,
          taken?.body.toString(),
        ])
      expect(upstream.requests).toHaveLength(round + 1)
    }
  })

  it('a key has its 24 hours in the store from when it was claimed', async () => {
    const { a, store } = await replicas((response) =>
      setTimeout(() => response.writeHead(201).end('{}'), 1_000),
    )
    const leftMs = async () => {
      const [key = ''] = (await store.ask('KEYS', '*order:*')) as string[]
      return Number(await store.ask('PTTL', key))
    }
    const answered = order(a, 'k')
    await eventually('the claim', async () => (await leftMs()) > 0)
    expect(await leftMs()).toBeLessThanOrEqual(86_400_000)
    expect((await answered).status).toBe(201)
    const left = await leftMs()
    expect(left).toBeGreaterThan(86_400_000 - 60_000)
    expect(left).toBeLessThanOrEqual(86_400_000 - 1_000)
  })

  it('a claim that the client of a cluster runs again, because its connection ended, is one claim', async () => {
    const client = new Redis((await valkey()).url)
    onTestFinished(() => client.disconnect())
    let claimAgain: (() => Promise<unknown>) | undefined
    const twice = async <Answer>(
      _operation: string,
      commands: (client: Redis) => Promise<Answer>,
    ) => {
      claimAgain ??= () => commands(client)
      await commands(client)
      return commands(client)
    }
    const keys = new SharedOrderKeys({ keyPrefix: '', insist: twice }, 60_000)
    expect(await keys.claim('k', 'sent')).toBeUndefined()
    await keys.settle('k', 'answered')
    await claimAgain?.()
    for (const found of [await keys.find('k'), await keys.claim('k', 'sent')])
      expect(found).toMatchObject({ text: 'answered' })
  })

  it('an order with an unknown outcome is unknown at the other replica, and at one that starts later', async () => {
    const { b, a, start, upstream } = await replicas((response) => response.destroy())
    expect((await order(a, 'k')).status).toBe(502)
    for (const replica of [b, await start()])
      expectProblem(await order(replica, 'k'), 409, 'order-outcome-unknown')
    expect(upstream.requests).toHaveLength(1)
  })

  it('while the store is away each replica keeps its own keys, and tells the store what became of them', async () => {
    const { a, b, store, upstream } = await replicas((response) =>
      response.writeHead(201).end('{}'),
    )
    await store.kill()
    for (let times = 0; times < 2; times += 1)
      expect((await order(a, 'k')).status).toBe(201)
    expect(upstream.requests).toHaveLength(1)
    const back = await valkey({ port: store.port })
    await eventually(
      'the store to be up',
      async () => (await counted(b, 'quotegate_store_up')) === 1,
    )
    const kept = async () => ((await back.ask('KEYS', '*order:*')) as string[]).length > 0
    await eventually('the answer to be in the store', kept)
    expect((await order(b, 'k')).status).toBe(201)
    expect(upstream.requests).toHaveLength(1)
  })

  it('a store that pauses for longer than VALKEY_TIMEOUT_MS still keeps two replicas from sending twice', async () => {
    const { a, b, store, upstream } = await replicas((response) =>
      response.writeHead(201).end('{}'),
    )
    store.freeze()
    const both = Promise.all([order(a, 'k'), order(b, 'k')])
    await pause(300)
    store.thaw()
    expect((await both).map(({ status }) => status)).toContain(201)
    expect(upstream.requests).toHaveLength(1)
  })

  // Least recently used are the answered clicks, whose quotes are long over.
  it.each([
    ['volatile-ttl', 'no click is sent twice', (twice: number) => twice === 0],
    ['volatile-lru', 'clicks are sent twice', (twice: number) => twice > 0],
  ])('where a store full of quotes evicts by %s, %s', async (policy, _what, isSo) => {
    const store = await valkey({
      config: [`maxmemory-policy ${policy}`, 'maxmemory-samples 32'],
    })
    const upstream = await recordingUpstream(({ method }, response) => {
      if (method === 'POST') response.writeHead(201).end('{}')
      else giveQuote(response, quoteBody({ padding: 'x'.repeat(3_000) }))
    })
    const start = () =>
      started({
        SWAP_BASE_URL: upstream.url,
        VALKEY_URL: store.url,
        VALKEY_TIMEOUT_MS: '2000',
        LEDGER_ENTRIES: '100',
      })
    const [a, b] = [await start(), await start()]
    const orders = () => upstream.requests.filter(({ method }) => method === 'POST')
    const clickAt = async (replica: { url: string }) => {
      for (let click = 0; click < 20; click += 1)
        expect((await order(replica, `k${click}`)).status).toBe(201)
    }
    const fact = async (name: string) =>
      Number(
        new RegExp(`^${name}:(\\d+)`, 'm').exec(String(await store.ask('INFO')))?.[1],
      )
    const quote = (amount: number) =>
      ask(a.url, { path: `${quotePath}?amount=${amount}` }).then(({ status }) =>
        expect(status).toBe(200),
      )

    await clickAt(a)
    await quote(1)
    expect(orders()).toHaveLength(20)
    // The store tells by the second what was used when.
    await pause(1_500)
    await store.ask('CONFIG', 'SET', 'maxmemory', (await fact('used_memory')) + 500_000)
    for (let amount = 2; amount < 402; amount += 10)
      await Promise.all(Array.from({ length: 10 }, (_, more) => quote(amount + more)))
    expect(await fact('evicted_keys')).toBeGreaterThan(100)
    await clickAt(b)
    expect(orders().length - 20).toSatisfy(isSo)
  })

  it('an order waits for a store that hangs for a second before it is sent, and as long before its answer', async () => {
    const { a, store } = await replicas((response) => response.writeHead(201).end('{}'))
    store.freeze()
    const beganMs = performance.now()
    expect((await order(a, 'k')).status).toBe(201)
    // Not more, on a machine that has other things to do.
    expect(performance.now() - beganMs).toBeLessThan(20_000)
  })

  it('a database that the store refuses gets no answer of an order, and neither does number 0', async () => {
    const store = await valkey()
    const upstream = await recordingUpstream(
      (_request, response) => void response.writeHead(201).end('{}'),
    )
    const url = `${store.url.replace(/\/\d*$/, '')}/99`
    const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url, VALKEY_URL: url })
    await pause(300)
    expect((await order(gateway, 'k')).status).toBe(201)
    expect(await store.ask('keys', '*order:*')).toEqual([])
  })

  it('a key whose process was killed is asked for in the store, and not sent again', async () => {
    const folder = newFolder()
    const store = await valkey()
    let hangs = true
    const upstream = await recordingUpstream((_request, response) => {
      if (!hangs) response.writeHead(201).end('{"id":"of the other"}')
    })
    const start = async () => {
      const settings = {
        SWAP_BASE_URL: upstream.url,
        VALKEY_URL: store.url,
        STATE_DIRECTORY: folder,
      }
      const { url, ...program } = await startListening(settings)
      const kill = async () => {
        program.child.kill('SIGKILL')
        await program.exit
      }
      return { url, kill }
    }
    // While the store is away: only the folder has its claim.
    await store.kill()
    const first = await start()
    void order(first, 'k').catch(() => {})
    await until(() => upstream.requests.length === 1, 'the order at the provider')
    await first.kill()
    await valkey({ port: store.port })

    const second = await start()
    expectProblem(await order(second, 'k'), 409, 'order-outcome-unknown')
    // Another replica sends what it cannot know of, and has the answer.
    const other = await started({ SWAP_BASE_URL: upstream.url, VALKEY_URL: store.url })
    hangs = false
    expect((await order(other, 'k')).status).toBe(201)
    const replayed = async (running: { url: string }) => {
      const again = await order(running, 'k')
      expect([again.status, again.body.toString()]).toEqual([
        201,
        '{"id":"of the other"}',
      ])
    }
    await replayed(second)
    await second.kill()
    await replayed(await start())
    expect(upstream.requests).toHaveLength(2)
  })
})
