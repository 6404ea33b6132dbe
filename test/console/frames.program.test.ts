import { createServer, type ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { ask, framesOf, look } from '../operations/support.ts'
import { gatewayWith } from '../support/gateways/between.ts'
import { listening } from '../support/machine/listening.ts'
import { describeInBrowser, openPage, useBrowser } from './browser.ts'

useBrowser()

// biome-ignore lint/suspicious/noExplicitAny: a test changes a frame as it likes.
type Frame = Record<string, any>

interface Staged {
  url: string
  /** What a gateway without any traffic says. */
  hello: Frame
  tick: Frame
  send(event: string, frame: Frame): void
  /** Ends the stream: the page connects again, and this is what it is greeted with. */
  restart(hello: Frame): void
}

/** Serves the page of a gateway, with frames that a test makes up. */
async function stageFrames(): Promise<Staged> {
  const gateway = await gatewayWith()
  const viewer = await look(gateway.operationsUrl)
  const [hello, tick] = (await framesOf(viewer, 2)) as [Frame, Frame]
  await viewer.leave()
  let greeting = hello
  const viewers = new Set<ServerResponse>()
  const server = createServer(async (request, response) => {
    if (request.url === '/stream') {
      viewers.add(response.writeHead(200, { 'Content-Type': 'text/event-stream' }))
      response.write(textOf('hello', greeting))
      return
    }
    const { status, headers, body } = await ask(gateway.operationsUrl + request.url)
    response.writeHead(status, { 'Content-Type': headers['content-type'] }).end(body)
  })
  return {
    url: (await listening(server)).url,
    hello,
    tick,
    send(event, frame) {
      for (const response of viewers) response.write(textOf(event, frame))
    },
    restart(next) {
      greeting = next
      for (const response of viewers) response.end()
      viewers.clear()
    },
  }
}

function textOf(event: string, frame: Frame): string {
  return `event: ${event}\ndata: ${JSON.stringify(frame)}\n\n`
}

const outage = (rest: Frame): Frame => ({
  id: 1,
  name: 'a part',
  says: 'in trouble',
  text: 'a part: in trouble',
  isSevere: true,
  until: null,
  requests: 0,
  concerned: 'none',
  names: [],
  ...rest,
})

/** An order that matches no quote. */
const refusal = (rest: Frame): Frame => ({
  reason: 'unknown',
  rule: 'none',
  why: '',
  pair: 'P',
  amount: '1',
  toAmount: null,
  quoteIds: [],
  application: 'web',
  client: '',
  quoteId: null,
  quoteAgeMs: null,
  expiredForMs: null,
  quotes: [],
  quotesConsidered: 0,
  requestId: 'r',
  ...rest,
})

describeInBrowser('what the console says', () => {
  test('of a gateway that restarted with other parts, it says nothing of the one before', async () => {
    const { url, hello, restart } = await stageFrames()
    const { now } = hello.health
    const swap = hello.health.upstreams[0]
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
    const slowest = { area: 'quote', durationMs: 900, traceId, requestId: 'r' }
    restart({
      ...hello,
      health: { ...hello.health, slowest },
      outages: [
        outage({
          what: 'upstream',
          upstream: 'payments',
          failing: ['rest'],
          since: now,
        }),
      ],
    })
    const { page } = await openPage(url)
    const parts = [
      '[data-item="slowest"]',
      '[data-item="upstream-payments"]',
      '[data-upstream="payments"]',
    ]
    for (const part of ['[data-outage="upstream"]', ...parts])
      await page.locator(part).waitFor()
    expect(await page.locator('[data-item="slowest"] .mono').textContent()).toBe(
      '…0e0e4736',
    )
    await page.getByRole('button', { name: `Copy the trace id ${traceId}` }).waitFor()
    restart({
      ...hello,
      health: { ...hello.health, version: '99.0.0', upstreams: [swap], slowest: null },
      outages: [outage({ what: 'clock', offsetMs: 5_000, since: now })],
    })
    await page.locator('[data-outage="clock"]').waitFor()
    await page
      .locator('.notice', { hasText: 'The gateway is now version 99.0.0' })
      .waitFor()
    expect(await page.locator('.outage').count()).toBe(1)
    for (const gone of parts) expect(await page.locator(gone).count(), gone).toBe(0)
  })

  test('of what is more than a day old, it says the date', async () => {
    const { url, hello, restart } = await stageFrames()
    const { now } = hello.health
    const [before, today] = [now - 90_000_000, now - 80_000_000]
    const event = (id: number, at: number) => ({
      id,
      at,
      tone: 'note',
      text: `event ${id}`,
    })
    const dateOf = (at: number) => new Date(at).toLocaleDateString('en-GB')
    restart({
      ...hello,
      history: { ...hello.history, events: [event(1, before), event(2, today)] },
      outages: [
        outage({ what: 'store', since: before }),
        outage({ id: 2, what: 'clock', since: now + 5 }),
      ],
    })
    const { page } = await openPage(url)
    await page.locator('[data-event="1"]').waitFor()
    const timeOf = (id: number) => page.locator(`[data-event="${id}"] time`).textContent()
    expect(await timeOf(1)).toContain(dateOf(before))
    expect(await timeOf(2)).toMatch(/^[\d:]{8}$/)
    expect(await page.locator('[data-outage="store"]').textContent()).toContain(
      dateOf(before),
    )
    expect(await page.locator('[data-outage="clock"]').textContent()).toMatch(
      /since [\d:]{8}\./,
    )
  })

  test('which it cannot understand, it reports, and it asks less and less often', async () => {
    const { url, hello, restart } = await stageFrames()
    const { page, complaints } = await openPage(url, { mayComplain: true })
    // The watchdog of the stream waits for 5 s.
    await page.evaluate(`globalThis.pauses = []
      const setLater = setTimeout
      globalThis.setTimeout = (then, ms) => {
        if (ms < 5_000) pauses.push(ms)
        return setLater(then, ms)
      }`)
    restart({ ...hello, health: { ...hello.health, upstreams: undefined } })
    const pauses = () => page.evaluate<number[]>('pauses')
    await expect.poll(async () => (await pauses()).length).toBeGreaterThan(2)
    const [first = 0, second = 0, third = 0] = await pauses()
    expect([second > first, third > second]).toEqual([true, true])
    expect(complaints.join()).toContain("(reading 'map')")
  })

  test('lists a request once that failed in the second in which the page connected', async () => {
    const { url, hello, tick, restart, send } = await stageFrames()
    const request = (number: number): Frame => ({
      number,
      at: hello.health.now,
      method: 'GET',
      route: 'none',
      path: `/number-${number}`,
      status: 404,
      source: 'client',
      cacheStatus: null,
      durationMs: 1,
      requestId: String(number),
      queueMs: null,
      upstreamMs: null,
      transferMs: null,
      ownMs: null,
      client: '',
      application: '',
      why: '',
    })
    restart({ ...hello, requests: [request(1)], failures: [request(3), request(1)] })
    const { page } = await openPage(url)
    send('tick', { ...tick, requests: [request(2), request(3), request(4)] })
    await page.locator('[data-request="4"]').waitFor()
    expect((await page.locator('#requests .open').allTextContents()).sort()).toEqual(
      [1, 2, 3, 4].map((number) => `GET /number-${number}`),
    )
  })

  test('marks an outage that was over within the first slot, and no clock that is off', async () => {
    const { url, hello, restart } = await stageFrames()
    const { now } = hello.health
    const seconds = { ...hello.history.seconds, slotMs: 1_000, last: 3 }
    seconds.values = Object.fromEntries(
      Object.keys(seconds.values).map((name) => [name, [0, 0, 0]]),
    )
    // Slots end at 1, 2 and 3 s; it is 3.9 s.
    const ended = (what: string) => ({
      id: 1,
      what,
      since: now - 3_800,
      until: now - 3_300,
      isSevere: true,
    })
    const greetWith = (what: string) =>
      restart({
        ...hello,
        history: { ...hello.history, seconds, outages: [ended(what)] },
      })
    greetWith('upstream')
    const { page } = await openPage(url)
    const marks = () =>
      page.locator('[data-tile="requests"] .outage-mark').getAttribute('d')
    await expect.poll(marks).toMatch(/^M[\d.]+ 0H/)
    greetWith('clock')
    await expect.poll(marks).toBe('')
  })

  test('changes from 15 min to 24 h by keyboard', async () => {
    const { url, hello, restart } = await stageFrames()
    const of = (slots: number, { values, ...range }: Frame) => {
      const column = Array.from({ length: slots }, () => 1)
      const columns = Object.fromEntries(
        Object.keys(values).map((name) => [name, column]),
      )
      return { ...range, last: slots - 1, values: columns }
    }
    const { seconds, minutes } = hello.history
    restart({
      ...hello,
      history: { ...hello.history, seconds: of(9, seconds), minutes: of(2, minutes) },
    })
    const { page } = await openPage(url)
    const line = page.locator('[data-tile="requests"] .spark .line')
    const points = async () => (await line.getAttribute('d'))?.match(/[ML]/g)?.length
    await expect.poll(points).toBe(9)
    await page.getByRole('radio', { name: '15 min' }).focus()
    await page.keyboard.press('ArrowRight')
    expect(await page.getByRole('radio', { name: '24 h' }).isChecked()).toBe(true)
    await expect.poll(points).toBe(2)
    await page.keyboard.press('ArrowLeft')
    await expect.poll(points).toBe(9)
  })

  test('is one sentence for each thing that is wrong, in which many pairs and peers are not all named', async () => {
    const { url, hello, restart } = await stageFrames()
    const since = hello.health.now
    const many = {
      names: Array.from({ length: 7 }, (_, index) => `${index}${'x'.repeat(200)}`),
      howMany: 7,
    }
    const five = many.names.slice(0, 5).map((name) => `${name.slice(0, 40)}…`)
    const refused = { concerned: 'refused', upstream: 'swap', lastFailure: '503' }
    const pairs = {
      ...refused,
      what: 'pairs',
      text: 'swap quotes: 7 pairs stopped',
      ...many,
    }
    const peer = {
      what: 'trust-proxy',
      concerned: 'misplaced',
      names: ['127.0.0.1'],
      howMany: 1,
    }
    const upstream = { ...refused, what: 'upstream', failing: ['orders'] }
    const store = { what: 'store', concerned: 'forwarded', requests: 2 }
    const sentences: [Frame, RegExp][] = [
      [
        { ...pairs, isSevere: false, retryInMs: 0 },
        / since [\d:]{8}\. 0 requests refused meanwhile, the next request tries again\. What/,
      ],
      [
        {
          ...upstream,
          retryInMs: 90_000,
          requests: 4,
          stillServed: ['cached quotes', 'orders', 'payments'],
        },
        /^a part: in trouble since [\d:]{8}\. Orders and payments work\. Still served: cached quotes\. 4 requests refused meanwhile, the next try is in 90 s\. What to do$/,
      ],
      [
        { ...upstream, requests: 1, stillServed: ['payments'] },
        / since [\d:]{8}\. Payments work\. 1 request refused meanwhile, a request is trying now\. What/,
      ],
      [{ what: 'clock' }, /^a part: in trouble since [\d:]{8}\. What to do$/],
      [store, / since [\d:]{8}\. 2 orders forwarded meanwhile\. What/],
      [
        { ...peer, requests: 1 },
        /^a part: in trouble \(127\.0\.0\.1\) since [\d:]{8}\. 1 request so far\. What/,
      ],
      [{ ...peer, ...many }, /^a part: in trouble \(.+, and more\) since/],
      // Without full rights.
      [{ ...peer, names: [] }, /^a part: in trouble since/],
    ]
    const all = sentences.map(([rest], id) => outage({ since, id, ...rest }))
    restart({ ...hello, outages: all })
    const { page } = await openPage(url)
    const said = () => page.locator('.outage').allTextContents()
    await expect
      .poll(said)
      .toEqual(sentences.map(([, pattern]) => expect.stringMatching(pattern)))
    expect((await said())[0]).toContain(
      `swap quotes: 7 pairs stopped (${five.join(', ')}, and more) since`,
    )
  })

  test('is why nothing is cached, if it is known', async () => {
    const { url, hello, restart } = await stageFrames()
    const { page } = await openPage(url)
    const empty = page.locator('#quotes [data-role="empty"]')
    const nothing = 'Nothing is cached. '
    await empty.filter({ hasText: `${nothing}A quote appears here as soon as` }).waitFor()
    const [swap, ...others] = hello.health.upstreams
    const [quotes, ...rest] = swap.traffic
    const notKept = { answers: 57, reason: 'its Vary is *' }
    const upstreams = [{ ...swap, traffic: [{ ...quotes, notKept }, ...rest] }, ...others]
    const health = { ...hello.health, upstreams }
    restart({ ...hello, health })
    const whyOfAll = `${nothing}The provider's last 57 answers could not be kept (its Vary is *).`
    await empty.filter({ hasText: whyOfAll }).waitFor()
    const failing = {
      what: 'no-quotes',
      upstream: 'swap',
      failing: ['quotes'],
      lastFailure: '429',
    }
    const text = 'swap quotes: 94 % of the calls of the last minute brought none (429)'
    restart({
      ...hello,
      health,
      outages: [outage({ ...failing, text, since: hello.health.now })],
    })
    await empty.filter({ hasText: `${nothing}${text}.` }).waitFor()
    const chip = page.locator('[data-item="upstream-swap"]')
    expect(await chip.textContent()).toContain('quotes failing (429)')
    expect(await chip.locator('.dot').getAttribute('class')).toBe('dot bad')
  })

  test('is at the top what an upstream does not get, or that the store is away', async () => {
    const { url, hello, tick, send } = await stageFrames()
    const { health } = hello
    const [swap] = health.upstreams
    const { page } = await openPage(url)
    const open = { name: 'rest', state: 'open', retryAfterMs: 3_000 }
    const halfOpen = { name: 'orders', state: 'half-open', retryAfterMs: 0 }
    const stopped = {
      what: 'pairs',
      upstream: 'swap',
      text: 'swap quotes: 1 pair stopped',
      isSevere: false,
    }
    const pair = outage({ ...stopped, since: health.now })
    const valkey = { kind: 'valkey', up: false }
    const withBreakers = (...breakers: Frame[]) => ({
      upstreams: [{ ...swap, breakers }],
    })
    const chips: {
      of: string
      health?: Frame
      outages?: Frame[]
      tone: string
      text: string
    }[] = [
      {
        of: 'upstream-swap',
        outages: [pair],
        tone: 'warn',
        text: 'swap quotes: 1 pair stopped',
      },
      {
        of: 'upstream-swap',
        health: withBreakers(halfOpen),
        tone: 'warn',
        text: 'orders: trying again',
      },
      {
        of: 'upstream-swap',
        health: withBreakers(open),
        outages: [pair],
        tone: 'bad',
        text: 'rest stopped, next try in 3.0 s; swap quotes: 1 pair stopped',
      },
      {
        of: 'upstream-swap',
        health: { coolDowns: { clients: 2, longestLeftMs: 30_000 } },
        tone: 'warn',
        text: '429: quotes of 2 clients not requested for 30 s at most',
      },
      { of: 'upstream-swap', tone: 'good', text: 'breakers closed' },
      {
        of: 'store',
        health: { store: valkey },
        tone: 'bad',
        text: 'store: valkey, down',
      },
      {
        of: 'store',
        health: { store: { ...valkey, up: true } },
        tone: 'good',
        text: 'store: valkey',
      },
    ]
    for (const { of, health: changes, outages = [], tone, text } of chips) {
      send('tick', { ...tick, outages, health: { ...health, ...changes } })
      const chip = page.locator(`[data-item="${of}"]`)
      await chip
        .filter({ hasText: text })
        .filter({ has: page.locator(`.dot.${tone}`) })
        .waitFor()
    }
    expect(await page.locator('[data-item="store"]').textContent()).not.toContain('down')
  })

  test('is the same number of pairs at the top, in the sentence and in the events, of which one is replaced', async () => {
    const { url, hello, tick, restart, send } = await stageFrames()
    const at = hello.health.now
    const failing = (says: string) =>
      outage({
        what: 'pairs',
        upstream: 'swap',
        text: `swap quotes: ${says}`,
        since: at,
        retryInMs: 0,
        concerned: 'refused',
        runbook: 'https://example.org/runbook#pairs',
      })
    const event = { at, tone: 'bad' }
    const events = [
      { ...event, id: 1, text: 'began' },
      { ...event, id: 2, text: '2 of 3 fail' },
    ]
    restart({
      ...hello,
      outages: [failing('2 of 3 fail')],
      history: { ...hello.history, events },
    })
    const { page } = await openPage(url)
    const sentence = page.locator('[data-outage="pairs"]')
    const chip = page.locator('[data-item="upstream-swap"]')
    await sentence.filter({ hasText: /^swap quotes: 2 of 3 fail since / }).waitFor()
    expect(await chip.textContent()).toContain('quotes: 2 of 3 fail')
    expect(await chip.locator('.dot').getAttribute('class')).toBe('dot bad')
    expect(await sentence.getByRole('link').getAttribute('href')).toBe(
      'https://example.org/runbook#pairs',
    )
    const next = { ...event, id: 3, text: '4 of 4 fail', replaces: 2 }
    send('tick', { ...tick, outages: [failing('4 of 4 fail')], events: [next] })
    await sentence.filter({ hasText: ': 4 of 4 fail since' }).waitFor()
    expect(await chip.textContent()).toContain('quotes: 4 of 4 fail')
    const texts = await page.locator('#events li span:last-child').allTextContents()
    expect(texts).toEqual(['4 of 4 fail', 'began'])
  })

  test('shows by its number each character that would turn round or hide what follows', async () => {
    const { url, hello, restart } = await stageFrames()
    const pair = 'ETH\u202e_CDSU\u200b'
    const order = refusal({
      at: hello.health.now,
      pair,
      quoteIds: [`id-${pair}`],
      application: pair,
    })
    restart({ ...hello, refusals: [order], refusedTotal: 1, refusedByApplication: [] })
    const { page } = await openPage(url)
    await page.locator('#orders .open').click()
    await page
      .locator('#orders .detail', { hasText: 'id-ETH\\u202e_CDSU\\u200b' })
      .waitFor()
    expect(await page.locator('body').innerHTML()).not.toMatch(/\u202e|\u200b/)
  })

  test('does not say of an application among many others that none of its orders was refused', async () => {
    const { url, hello, restart } = await stageFrames()
    const others = {
      application: null,
      orders: 9,
      expired: 0,
      unknown: 9,
      reported: 0,
      leastLateMs: null,
      mostLateMs: null,
    }
    const refusals = [refusal({ at: hello.health.now })]
    restart({ ...hello, refusals, refusedTotal: 9, refusedByApplication: [others] })
    const { page } = await openPage(url)
    await expect
      .poll(() => page.locator('#orders .group').allTextContents())
      .toEqual([
        'other applications: 9 of 9 orders match no quote',
        'web: counted among other applications',
      ])
  })
})
