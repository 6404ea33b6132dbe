import { stat } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { systemClock, systemTimers } from '../../src/clock.ts'
import { orderClient, termsOf } from '../support/clients/orders.ts'
import { counted, giveQuote, untilCounted } from '../support/clients/quotes.ts'
import { gatewayWith, pause, recordingUpstream } from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'
import { streamReplica, untilCaughtUp } from '../support/stores/stream-stage.ts'
import { valkey } from '../support/stores/valkey.ts'

/** Longer than the timeout of a `streamReplica`, and than an answer that makes it cautious for seconds. */
const pauseMs = 700

/** A collection, or a core that others use: the process stands still. */
function standStill(ms = pauseMs): void {
  const endMs = performance.now() + ms
  while (performance.now() < endMs);
}

/** What was sent is in the socket, and its answer was not read yet. */
const sent = () => new Promise((resolve) => setImmediate(resolve))

/** A clock with which all that is looked at again and again can be looked at now. */
function lookedAt() {
  const looks: (() => void)[] = []
  const setInterval = (onTime: () => void, ms: number) => {
    looks.push(onTime)
    return systemTimers.setInterval(onTime, ms)
  }
  return {
    clock: { ...systemClock, timers: { ...systemTimers, setInterval } },
    look() {
      for (const one of looks) one()
    },
  }
}

describe('a pause of this process is not the lateness of the store:', {
  tags: ['redis-server'],
}, () => {
  test('what is read, or waits for a read, across a pause is in time', async () => {
    const here = await streamReplica((await valkey()).url)
    await untilCaughtUp(here)
    for (let times = 0; times < 3; times += 1) {
      const first = here.journal.caughtUp()
      await sent()
      const second = here.journal.caughtUp()
      standStill()
      expect([await first, await second]).toEqual([true, true])
    }
    expect(here.complaints()).toEqual([])
  })

  test('so is what is noted across a pause', async () => {
    const here = await streamReplica((await valkey()).url)
    await untilCaughtUp(here)
    for (const id of ['a', 'b', 'c']) {
      const noted = here.note([id])
      await sent()
      standStill()
      await noted
      expect(await here.journal.caughtUp()).toBe(true)
    }
  })

  // Commands go out at the end of a turn of the event loop: the time was counted from before, and a stall within the turn
  // that was a little longer than the timeout left the store none of it.
  test.each([520, 580, 640, 900])(
    'nor is a stall of %i ms between what asks the store and its write',
    async (ms) => {
      const here = await streamReplica((await valkey()).url, { timeoutMs: 500 })
      for (let times = 0; times < 3; times += 1) {
        await untilCaughtUp(here)
        const asked = here.store.run('quote-get', (client) => client.get('a key'))
        const noted = here.note([`${ms}-${times}`])
        standStill(ms)
        await noted
        expect(here.journal.facts.waiting).toBe(0)
        // `null`: the store says that it has no such key. Undefined would say that it was late.
        expect(await asked).toBeNull()
      }
    },
  )

  // The look that ends a connection had been queued before the pause, and ran before the answers that came in it were
  // read: the claims of keys were lost with the connection, and their orders were sent although others had sent them.
  test('nor is a pause between a look at the store and the reading of its answers', async () => {
    const { clock, look } = lookedAt()
    const server = await valkey()
    const here = await streamReplica(server.url, { timeoutMs: 500, clock })
    for (let times = 0; times < 3; times += 1) {
      await untilCaughtUp(here)
      const { connectionsEnded } = here.store
      server.freeze()
      const claimed = here.store.insist('key-claim', (client) => client.get('a key'))
      await pause(20)
      await stat('.')
      look()
      server.thaw()
      standStill(1_100)
      expect(await claimed).toBeNull()
      expect(here.store.connectionsEnded).toBe(connectionsEnded)
    }
  })

  test('nor is a store down because a look is due at the end of a pause', async () => {
    const server = await valkey()
    const timeoutMs = 50
    const { clock, look } = lookedAt()
    const here = await streamReplica(server.url, { timeoutMs, clock })
    const downs = () => here.complaints().filter((text) => text.includes('is down'))
    for (let inTime = 0; inTime < 3; ) {
      await untilCaughtUp(here)
      const before = downs().length
      const sentAtMs = performance.now()
      server.freeze()
      const asked = here.store.insist('quote-get', (client) => client.get('a key'))
      await pause(timeoutMs / 5)
      look()
      await sent()
      const waitedMs = performance.now() - sentAtMs
      server.thaw()
      standStill()
      expect(await asked).toBeNull()
      // On a machine that has other things to do it was late before the pause.
      if (waitedMs > timeoutMs / 2) continue
      expect(downs().length).toBe(before)
      inTime += 1
    }
  })

  // A replica that was stopped in just that moment sent 140 of 19,200 clicks that another one had sent.
  test('nor is a pause after commands were made, and before they are written', async () => {
    const server = await valkey()
    const here = await streamReplica(server.url, { timeoutMs: 500 })
    for (let times = 0; times < 3; times += 1) {
      await untilCaughtUp(here)
      const { connectionsEnded } = here.store
      const noted = here.note([`quote ${times}`])
      const claimed = here.store.insist('key-claim', (client) => client.get('a key'))
      const other = here.store.insist('key-claim', (client) => {
        const answer = client.get('a key')
        server.freeze()
        standStill(1_100)
        // Not before all that is due by then has had its turn.
        setTimeout(() => server.thaw(), 50)
        return answer
      })
      expect([await claimed, await other]).toEqual([null, null])
      await noted
      expect(await here.journal.caughtUp()).toBe(true)
      expect(here.store.connectionsEnded).toBe(connectionsEnded)
    }
  })

  test('a store that is late while this process waits is late', async () => {
    const server = await valkey()
    const here = await streamReplica(server.url)
    await untilCaughtUp(here)
    server.freeze()
    const read = here.journal.caughtUp()
    await pause(pauseMs)
    server.thaw()
    expect(await read).toBe(false)
    await pause(200)
    expect(await here.journal.caughtUp()).toBe(false)
    await untilCaughtUp(here)
  })

  test('a process that was stopped for seconds reads what was noted meanwhile before it judges', async () => {
    const store = await valkey()
    const upstream = await recordingUpstream(({ method }, response) => {
      if (method === 'POST') response.writeHead(201).end('{}')
      else giveQuote(response)
    })
    const settings = {
      SWAP_BASE_URL: upstream.url,
      VALKEY_URL: store.url,
      VALKEY_TIMEOUT_MS: '2000',
    }
    const [stopped, other] = [await startListening(settings), await gatewayWith(settings)]
    const metrics = async () => (await fetch(`${stopped.operationsUrl}/metrics`)).text()
    for (const gateway of [{ metrics }, other])
      await untilCounted(gateway, 'quotegate_store_up', 1)
    // A start is cautious for two seconds.
    await pause(4_000)
    stopped.child.kill('SIGSTOP')
    const quote = await orderClient(other).quote()
    await pause(3_000)
    const ordered = orderClient(stopped).order(termsOf(quote))
    stopped.child.kill('SIGCONT')
    expect((await ordered).status).toBe(201)
    const live = 'quotegate_float_orders_total{decision="forwarded",reason="live"}'
    expect(await counted({ metrics }, live)).toBe(1)
  })
})
