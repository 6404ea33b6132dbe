import { expect, test } from 'vitest'
import { describeInBrowser, expectPeace, openPage, useBrowser } from './browser.ts'
import { type Frame, stageFrames } from './frames.ts'

useBrowser()

const outage = (rest: Frame): Frame => ({
  id: 1,
  isSevere: true,
  until: null,
  requests: 0,
  concerned: 'none',
  names: [],
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
      outages: [outage({ what: 'upstream', upstream: 'payments', traffic: 'connections', since: now })],
    })
    const { page, ...watched } = await openPage(url)
    await page.locator('[data-outage="upstream"]').waitFor()
    for (const item of ['slowest', 'upstream-payments']) await page.locator(`[data-item="${item}"]`).waitFor()
    await page.locator('[data-upstream="payments"]').waitFor()
    expect(await page.locator('[data-item="slowest"] .mono').textContent()).toBe('…0e0e4736')
    await page.getByRole('button', { name: `Copy the trace id ${traceId}` }).waitFor()
    restart({
      ...hello,
      health: { ...hello.health, version: '99.0.0', upstreams: [swap], slowest: null },
      outages: [outage({ what: 'clock', offsetMs: 5_000, since: now })],
    })
    await page.locator('[data-outage="clock"]').waitFor()
    await page.locator('.notice', { hasText: 'The gateway is now version 99.0.0' }).waitFor()
    expect(await page.locator('.outage').count()).toBe(1)
    for (const gone of [
      '[data-item="slowest"]',
      '[data-item="upstream-payments"]',
      '[data-upstream="payments"]',
    ])
      expect(await page.locator(gone).count(), gone).toBe(0)
    expectPeace({ page, ...watched }, url)
  })

  test('of what is more than a day old, it says the date', async () => {
    const { url, hello, restart } = await stageFrames()
    const { now } = hello.health
    const [before, today] = [now - 90_000_000, now - 80_000_000]
    const event = (id: number, at: number) => ({ id, at, tone: 'note', text: `event ${id}` })
    const dateOf = (at: number) => new Date(at).toLocaleDateString('en-GB')
    restart({
      ...hello,
      history: { ...hello.history, events: [event(1, before), event(2, today)] },
      outages: [outage({ what: 'store', since: before }), outage({ id: 2, what: 'clock', since: now + 5 })],
    })
    const { page } = await openPage(url)
    await page.locator('[data-event="1"]').waitFor()
    const timeOf = (id: number) => page.locator(`[data-event="${id}"] time`).textContent()
    expect(await timeOf(1)).toContain(dateOf(before))
    expect(await timeOf(2)).toMatch(/^[\d:]{8}$/)
    expect(await page.locator('[data-outage="store"]').textContent()).toContain(dateOf(before))
    expect(await page.locator('[data-outage="clock"]').textContent()).toContain('(0.0 s)')
  })

  test('which it cannot understand, it reports, and it asks less and less often', async () => {
    const { url, hello, restart } = await stageFrames()
    const { page, complaints } = await openPage(url)
    // The watchdog of the stream waits for 5 s.
    await page.evaluate(`globalThis.pauses = []
      const setLater = setTimeout
      globalThis.setTimeout = (then, ms) => {
        if (ms < 5_000) pauses.push(ms)
        return setLater(then, ms)
      }`)
    restart({ ...hello, health: { ...hello.health, upstreams: undefined } })
    const pauses = () => page.evaluate<number[]>('pauses')
    await expect.poll(async () => (await pauses()).length, { timeout: 15_000 }).toBeGreaterThan(2)
    const [first = 0, second = 0, third = 0] = await pauses()
    expect(second).toBeGreaterThan(first)
    expect(third).toBeGreaterThan(second)
    expect(complaints.join()).toContain("(reading 'map')")
  })

  test('lists a request once that failed in the second in which the page connected', async () => {
    const { url, hello, tick, restart, send } = await stageFrames()
    const request = (number: number): Frame => ({
      ...{
        number,
        at: hello.health.now,
        method: 'GET',
        route: 'none',
        path: `/number-${number}`,
        status: 404,
      },
      ...{
        source: 'client',
        cacheStatus: null,
        durationMs: 1,
        queueMs: null,
        upstreamMs: null,
        transferMs: null,
      },
      ...{ ownMs: null, requestId: String(number), client: '', application: '', why: '' },
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
    seconds.values = Object.fromEntries(Object.keys(seconds.values).map((name) => [name, [0, 0, 0]]))
    // Slots end at 1, 2 and 3 s; it is 3.9 s.
    const ended = (what: string) => ({ id: 1, what, since: now - 3_800, until: now - 3_300, isSevere: true })
    const greetWith = (what: string) =>
      restart({ ...hello, history: { ...hello.history, seconds, outages: [ended(what)] } })
    greetWith('upstream')
    const { page } = await openPage(url)
    const marks = () => page.locator('[data-tile="requests"] .outage-mark').getAttribute('d')
    await expect.poll(marks, { timeout: 10_000 }).toMatch(/^M[\d.]+ 0H/)
    greetWith('clock')
    await expect.poll(marks, { timeout: 10_000 }).toBe('')
  })

  test('names some of many pairs and peers, and compares a share of orders only with a lower one', async () => {
    const { url, hello, restart } = await stageFrames()
    const { now } = hello.health
    const many = Array.from({ length: 7 }, (_, index) => `${index}${'x'.repeat(200)}`)
    const pairs = outage({
      ...{
        isSevere: false,
        id: 1,
        what: 'pairs',
        upstream: 'swap',
        traffic: 'quotes',
        names: many,
        howMany: 7,
        since: now,
      },
      ...{ lastFailure: '503', retryInMs: 0, stillServed: ['quotes of other pairs'] },
    })
    const peers = outage({ id: 2, what: 'trust-proxy', names: many, howMany: 7, since: now, requests: 1 })
    const misled = outage({
      ...{ id: 6, what: 'client-ip-header', names: many, howMany: 7, since: now, requests: 2 },
      ...{ headers: ['X-Forwarded-For', 'x-real-ip'], clientIpHeader: 'forwarded' },
    })
    const unknown = outage({ id: 3, what: 'unknown-orders', share: 1, usualShare: 1, since: now })
    const store = outage({ id: 4, what: 'store', lastFailure: 'refused', since: now, requests: 2 })
    const slow = outage({
      ...{ id: 7, what: 'slow', upstream: 'swap', p95Ms: 2_612, usualP95Ms: 102, since: now },
    })
    restart({ ...hello, outages: [pairs, peers, misled, unknown, store, slow] })
    const { page } = await openPage(url)
    const said = (what: string) => page.locator(`[data-outage="${what}"]`).textContent()
    const five = many.slice(0, 5).map((name) => `${name.slice(0, 40)}…`)
    expect(await said('pairs')).toContain(
      `Quotes of 7 pairs (${five.join(', ')}, and more) have failed since`,
    )
    expect(await said('trust-proxy')).toMatch(
      /^7 peers \(.+, and more\) sent a client-address header but are not/,
    )
    expect(await said('client-ip-header')).toMatch(
      /^7 peers \(.+, and more\) are trusted and send X-Forwarded-For and x-real-ip, but CLIENT_IP_HEADER is forwarded/,
    )
    expect(await said('unknown-orders')).toMatch(
      /^100% of the float orders .+, which is more than half of them\. What to do$/,
    )
    expect(await said('slow')).toMatch(
      /^The swap API answers slowly since .+: its p95 of 10 min is 2,612 ms, usually 102 ms\. What to do$/,
    )
    expect(await said('store')).toContain(
      '2 orders forwarded that would have been refused as expired, it is tried',
    )

    const all = outage({ ...pairs, id: 5, what: 'upstream', traffic: 'connections' })
    restart({ ...hello, outages: [all, pairs, { ...unknown, usualShare: 0.2, requests: 9 }] })
    await page.locator('[data-outage="upstream"]').waitFor()
    expect(await page.locator('[data-outage="pairs"]').count()).toBe(0)
    expect(await said('unknown-orders')).toMatch(/, more than the usual 20%; 9 since then\. What to do$/)
  })

  test('says the same number of pairs at the top, in the sentence and in the events, of which one is replaced', async () => {
    const { url, hello, tick, restart, send } = await stageFrames()
    const { now } = hello.health
    const allOf = (howMany: number, askedFor: number) =>
      outage({
        ...{
          what: 'pairs',
          upstream: 'swap',
          traffic: 'quotes',
          howMany,
          askedFor,
          since: now,
          retryInMs: 0,
        },
        ...{ runbook: 'https://example.org/runbook#pairs' },
      })
    const event = { at: now, tone: 'bad' }
    const events = [
      { ...event, id: 1, text: 'began (1 of 1 pair)' },
      { ...event, id: 2, text: 'now (2 of 3 pairs stopped)' },
    ]
    restart({ ...hello, outages: [allOf(2, 3)], history: { ...hello.history, events } })
    const { page } = await openPage(url)
    const sentence = page.locator('[data-outage="pairs"]')
    const chip = page.locator('[data-item="upstream-swap"]')
    await sentence
      .filter({ hasText: /^All quotes that were asked for fail \(2 of 3 pairs stopped\), since / })
      .waitFor()
    expect(await chip.textContent()).toContain('all quotes fail (2 of 3 pairs stopped)')
    expect(await sentence.getByRole('link').getAttribute('href')).toBe('https://example.org/runbook#pairs')
    const next = { ...event, id: 3, text: 'now (4 of 4 pairs)', replaces: 2 }
    send('tick', { ...tick, outages: [allOf(4, 4)], events: [next] })
    await sentence.filter({ hasText: '(4 of 4 pairs), since' }).waitFor()
    expect(await chip.textContent()).toContain('all quotes fail (4 of 4 pairs)')
    const texts = await page.locator('#events li span:last-child').allTextContents()
    expect(texts).toEqual(['now (4 of 4 pairs)', 'began (1 of 1 pair)'])
  })

  test('shows by its number each character that would turn round or hide what follows', async () => {
    const { url, hello, restart } = await stageFrames()
    const pair = 'ETH\u202e_CDSU\u200b'
    const order = {
      ...{
        at: hello.health.now,
        reason: 'unknown',
        rule: 'none',
        why: '',
        pair,
        amount: '1',
        toAmount: null,
      },
      ...{ quoteIds: [`id-${pair}`], application: pair, client: '', quoteId: null, quoteAgeMs: null },
      ...{ expiredForMs: null, quotes: [], quotesConsidered: 0, requestId: 'r' },
    }
    restart({ ...hello, refusals: [order], refusedTotal: 1, refusedByApplication: [] })
    const { page } = await openPage(url)
    await page.locator('#orders .open').click()
    await page.locator('#orders .detail', { hasText: 'id-ETH\\u202e_CDSU\\u200b' }).waitFor()
    expect(await page.locator('body').innerHTML()).not.toMatch(/\u202e|\u200b/)
  })

  test('does not say of an application among many others that none of its orders was refused', async () => {
    const { url, hello, restart } = await stageFrames()
    const order = {
      ...{
        at: hello.health.now,
        reason: 'unknown',
        rule: 'none',
        why: '',
        pair: 'P',
        amount: '1',
        toAmount: null,
      },
      ...{
        quoteIds: [],
        application: 'web',
        client: '',
        quoteId: null,
        quoteAgeMs: null,
        expiredForMs: null,
      },
      ...{ quotes: [], quotesConsidered: 0, requestId: 'r' },
    }
    const others = {
      application: null,
      orders: 9,
      expired: 0,
      unknown: 9,
      leastLateMs: null,
      mostLateMs: null,
    }
    restart({ ...hello, refusals: [order], refusedTotal: 9, refusedByApplication: [others] })
    const { page } = await openPage(url)
    const groups = () => page.locator('#orders .group').allTextContents()
    await expect
      .poll(groups)
      .toEqual(['other applications: 9 of 9 orders match no quote', 'web: counted among other applications'])
  })
})
