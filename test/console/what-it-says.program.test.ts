import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { ask, statusOf } from '../operations/support.ts'
import { gatewayWith } from '../support/gateways/between.ts'
import { listening } from '../support/machine/listening.ts'
import { describeInBrowser, expectAccessible, openPage, useBrowser } from './browser.ts'

useBrowser()

// biome-ignore lint/suspicious/noExplicitAny: a test changes a status as it likes.
type Said = Record<string, any>

interface Staged {
  url: string
  /** What a gateway without any traffic says. */
  status: Said
  /** From now on the page is answered this; without it, not at all. */
  say(status?: Said): void
  /** How often the page has asked. */
  asked(): number
}

/** Serves the page of a gateway, with a status that a test makes up. */
async function stagePage(): Promise<Staged> {
  const gateway = await gatewayWith()
  const status = await statusOf(gateway)
  let said: Said | undefined = status
  let version = 1
  let asked = 0
  const server = createServer(async (request, response) => {
    if (request.url === '/status') {
      asked += 1
      if (said === undefined) {
        request.socket.destroy()
        return
      }
      const etag = `W/"${version}"`
      response.setHeader('ETag', etag)
      if (request.headers['if-none-match'] === etag) response.writeHead(304).end()
      else
        response.setHeader('Content-Type', 'application/json').end(JSON.stringify(said))
      return
    }
    const { status, headers, body } = await ask(gateway.operationsUrl + request.url)
    response.writeHead(status, { 'Content-Type': headers['content-type'] }).end(body)
  })
  return {
    url: (await listening(server)).url,
    status,
    say(next) {
      said = next
      version += 1
    },
    asked: () => asked,
  }
}

const outage = (rest: Said): Said => ({
  id: 1,
  name: 'a part',
  says: 'in trouble',
  text: 'a part: in trouble',
  isSevere: true,
  requests: 0,
  concerned: 'none',
  names: [],
  ...rest,
})

/** An order that matches no quote. */
const refusal = (rest: Said): Said => ({
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
    const { url, status, say } = await stagePage()
    const { now } = status
    const swap = status.upstreams[0]
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
    const slowest = { area: 'quote', durationMs: 900, traceId, requestId: 'r' }
    say({
      ...status,
      slowest,
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
    say({
      ...status,
      version: '99.0.0',
      upstreams: [swap],
      slowest: null,
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
    const { url, status, say } = await stagePage()
    const { now } = status
    const [before, today] = [now - 90_000_000, now - 80_000_000]
    const event = (id: number, at: number) => ({
      id,
      at,
      tone: 'note',
      text: `event ${id}`,
    })
    const dateOf = (at: number) => new Date(at).toLocaleDateString('en-GB')
    say({
      ...status,
      events: [event(2, today), event(1, before)],
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

  test('which it cannot understand, it reports, and it asks again', async () => {
    const { url, status, say, asked } = await stagePage()
    const { page, complaints } = await openPage(url, { mayComplain: true })
    say({ ...status, upstreams: undefined })
    await expect.poll(() => complaints.join()).toContain("(reading 'map')")
    const before = asked()
    await expect.poll(asked).toBeGreaterThan(before + 1)
    say(status)
    await page.locator('#savings').waitFor()
  })

  test('is old once the gateway does not answer: then that is the first sentence, and all else is grey', async () => {
    const { url, status, say } = await stagePage()
    const clock = outage({ what: 'clock', since: status.now })
    say({ ...status, outages: [clock] })
    const { page } = await openPage(url, { mayComplain: true })
    const sentences = page.locator('.outage')
    await sentences.filter({ hasText: 'in trouble' }).waitFor()
    const filterOf = (selector: string) =>
      page.evaluate<string>(
        `getComputedStyle(document.querySelector('${selector}')).filter`,
      )
    expect(await filterOf('main')).toBe('none')
    say(undefined)
    await expect
      .poll(() => sentences.first().textContent())
      .toMatch(
        /^No answer from the gateway for \d+(\.\d)? s\. What you see is of \d\d:\d\d:\d\d\.$/,
      )
    expect(await sentences.count()).toBe(2)
    for (const old of ['main', '[data-outage="clock"]'])
      expect(await filterOf(old)).toContain('grayscale')
    expect(await filterOf('[data-outage="silence"]')).toBe('none')
    await page.locator('#connection', { hasText: 'no answer' }).waitFor()
    await expectAccessible(page, [390])
    say(status)
    await page.locator('#outages').waitFor({ state: 'hidden' })
    expect(await filterOf('main')).toBe('none')
  })

  test('is what is wrong at first, above all else and within the first screen of a phone', async () => {
    const { url, status, say } = await stagePage()
    say({ ...status, outages: [outage({ what: 'clock', since: status.now })] })
    const { page } = await openPage(url)
    const sentence = page.locator('[data-outage="clock"]')
    for (const width of [390, 1024, 1440]) {
      await page.setViewportSize({ width, height: 700 })
      const top = (await sentence.boundingBox())?.y ?? Number.NaN
      expect(top, `${width} px`).toBeLessThan(200)
      for (const later of ['#health', '#tiles', '#requests'])
        expect((await page.locator(later).boundingBox())?.y).toBeGreaterThan(top)
    }
  })

  test('has no row twice, and keeps the one that is open though the gateway has forgotten it', async () => {
    const { url, status, say } = await stagePage()
    const request = (number: number): Said => ({
      number,
      at: status.now + number,
      method: 'GET',
      route: 'none',
      path: `/number-${number}`,
      status: 404,
      source: 'client',
      durationMs: 1,
      requestId: String(number),
      client: '',
      application: '',
    })
    say({ ...status, lastRequests: [request(2), request(1)] })
    const { page } = await openPage(url)
    const paths = () => page.locator('#requests .open').allTextContents()
    await page.locator('[data-request="1"] .open').click()
    await page.locator('#requests .detail').waitFor()
    say({ ...status, lastRequests: [request(4), request(3), request(2)] })
    await expect
      .poll(paths)
      .toEqual([4, 3, 2, 1].map((number) => `GET /number-${number}`))
    await page.locator('[data-request="1"] .open').click()
    await expect.poll(paths).toEqual([4, 3, 2].map((number) => `GET /number-${number}`))
    // After a restart numbers begin again.
    await page.locator('[data-request="4"] .open').click()
    say({
      ...status,
      lastRequests: [{ ...request(4), at: status.now + 9_000, path: '/new' }],
    })
    await expect.poll(paths).toEqual(['GET /new', 'GET /number-4'])
    expect(await page.locator('[aria-expanded="true"]').count()).toBe(1)
  })

  test('marks an outage that was over within the first slot, and no clock that is off', async () => {
    const { url, status, say } = await stagePage()
    const { now } = status
    // Slots end at 1, 2 and 3 s; it is 3.9 s.
    const { slotMs: _tenSeconds, ...columns } = status.sparklines
    const values = Object.fromEntries(
      Object.keys(columns).map((name) => [name, [0, 0, 0]]),
    )
    const sparklines = { slotMs: 1_000, ...values }
    const greetWith = (what: string) =>
      say({
        ...status,
        sparklines,
        pastOutages: [{ what, since: now - 3_800, until: now - 3_300 }],
      })
    greetWith('upstream')
    const { page } = await openPage(url)
    const marks = () =>
      page.locator('[data-tile="requests"] .outage-mark').getAttribute('d')
    await expect.poll(marks).toMatch(/^M[\d.]+ 0H/)
    greetWith('clock')
    await expect.poll(marks).toBe('')
  })

  test('is one sentence for each thing that is wrong, in which many pairs and peers are not all named', async () => {
    const { url, status, say } = await stagePage()
    const since = status.now
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
    const sentences: [Said, RegExp][] = [
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
    say({ ...status, outages: all })
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
    const { url, status, say } = await stagePage()
    const { page } = await openPage(url)
    const empty = page.locator('#quotes [data-role="empty"]')
    const nothing = 'Nothing is cached. '
    await empty.filter({ hasText: `${nothing}A quote appears here as soon as` }).waitFor()
    const [swap, ...others] = status.upstreams
    const [quotes, ...rest] = swap.traffic
    const notKept = { answers: 57, reason: 'its Vary is *' }
    const upstreams = [{ ...swap, traffic: [{ ...quotes, notKept }, ...rest] }, ...others]
    say({ ...status, upstreams })
    const whyOfAll = `${nothing}The provider's last 57 answers could not be kept (its Vary is *).`
    await empty.filter({ hasText: whyOfAll }).waitFor()
    const failing = {
      what: 'no-quotes',
      upstream: 'swap',
      failing: ['quotes'],
      lastFailure: '429',
    }
    const text = 'swap quotes: 94 % of the calls of the last minute brought none (429)'
    say({
      ...status,
      upstreams,
      outages: [outage({ ...failing, text, since: status.now })],
    })
    await empty.filter({ hasText: `${nothing}${text}.` }).waitFor()
    const chip = page.locator('[data-item="upstream-swap"]')
    expect(await chip.textContent()).toContain('quotes failing (429)')
    expect(await chip.locator('.dot').getAttribute('class')).toBe('dot bad')
  })

  test('is at the top what an upstream does not get, or that the store is away', async () => {
    const { url, status, say } = await stagePage()
    const [swap] = status.upstreams
    const { page } = await openPage(url)
    const open = { name: 'rest', state: 'open', retryAfterMs: 3_000 }
    const halfOpen = { name: 'orders', state: 'half-open', retryAfterMs: 0 }
    const stopped = {
      what: 'pairs',
      upstream: 'swap',
      text: 'swap quotes: 1 pair stopped',
      isSevere: false,
    }
    const pair = outage({ ...stopped, since: status.now })
    const valkey = { kind: 'valkey', up: false }
    const withBreakers = (...breakers: Said[]) => ({
      upstreams: [{ ...swap, breakers }],
    })
    const chips: {
      of: string
      said?: Said
      outages?: Said[]
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
        said: withBreakers(halfOpen),
        tone: 'warn',
        text: 'orders: trying again',
      },
      {
        of: 'upstream-swap',
        said: withBreakers(open),
        outages: [pair],
        tone: 'bad',
        text: 'rest stopped, next try in 3.0 s; swap quotes: 1 pair stopped',
      },
      {
        of: 'upstream-swap',
        said: { coolDowns: { clients: 2, longestLeftMs: 30_000 } },
        tone: 'warn',
        text: '429: quotes of 2 users not requested for 30 s at most',
      },
      { of: 'upstream-swap', tone: 'good', text: 'breakers closed' },
      {
        of: 'store',
        said: { store: valkey },
        tone: 'bad',
        text: 'store: valkey, down',
      },
      {
        of: 'store',
        said: { store: { ...valkey, up: true } },
        tone: 'good',
        text: 'store: valkey',
      },
    ]
    for (const { of, said = {}, outages = [], tone, text } of chips) {
      say({ ...status, ...said, outages })
      const chip = page.locator(`[data-item="${of}"]`)
      await chip
        .filter({ hasText: text })
        .filter({ has: page.locator(`.dot.${tone}`) })
        .waitFor()
    }
    expect(await page.locator('[data-item="store"]').textContent()).not.toContain('down')
  })

  test('is the same number of pairs at the top, in the sentence and in the events, of which one is replaced', async () => {
    const { url, status, say } = await stagePage()
    const at = status.now
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
      { ...event, id: 2, text: '2 of 3 fail' },
      { ...event, id: 1, text: 'began' },
    ]
    say({
      ...status,
      outages: [failing('2 of 3 fail')],
      events,
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
    const next = { ...event, id: 3, text: '4 of 4 fail' }
    say({ ...status, outages: [failing('4 of 4 fail')], events: [next, events[1]] })
    await sentence.filter({ hasText: ': 4 of 4 fail since' }).waitFor()
    expect(await chip.textContent()).toContain('quotes: 4 of 4 fail')
    const texts = await page.locator('#events li span:last-child').allTextContents()
    expect(texts).toEqual(['4 of 4 fail', 'began'])
  })

  test('shows by its number each character that would turn round or hide what follows', async () => {
    const { url, status, say } = await stagePage()
    const pair = 'ETH\u202e_CDSU\u200b'
    const order = refusal({
      at: status.now,
      pair,
      quoteIds: [`id-${pair}`],
      application: pair,
    })
    say({ ...status, lastRefusals: [order], ordersRefused: 1, refusedByApplication: [] })
    const { page } = await openPage(url)
    await page.locator('#orders .open').click()
    await page
      .locator('#orders .detail', { hasText: 'id-ETH\\u202e_CDSU\\u200b' })
      .waitFor()
    expect(await page.locator('body').innerHTML()).not.toMatch(/\u202e|\u200b/)
  })

  test('does not say of an application among many others that none of its orders was refused', async () => {
    const { url, status, say } = await stagePage()
    const others = {
      application: null,
      orders: 9,
      expired: 0,
      unknown: 9,
      reported: 0,
      leastLateMs: null,
      mostLateMs: null,
    }
    const lastRefusals = [refusal({ at: status.now })]
    say({ ...status, lastRefusals, ordersRefused: 9, refusedByApplication: [others] })
    const { page } = await openPage(url)
    await expect
      .poll(() => page.locator('#orders .group').allTextContents())
      .toEqual([
        'other applications: 9 of 9 orders match no quote',
        'web: counted among other applications',
      ])
  })
})
