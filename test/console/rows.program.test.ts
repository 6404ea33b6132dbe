import type { ServerResponse } from 'node:http'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { aSecond, floatOrder, gatewayInHaste, quote } from '../operations/support.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import {
  gatewayWith,
  recordedGateway,
  recordingUpstream,
} from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'
import { describeInBrowser, expectAccessible, openPage, useBrowser } from './browser.ts'

useBrowser()

const rowsOf = (page: Page, panel: string) =>
  page.locator(`${panel} tbody tr.opens:not([hidden])`)

/** With an id of the caller's own. */
async function askAs(
  gateway: RunningGateway,
  requestId: string,
  path = '/v3/assets',
): Promise<void> {
  await (
    await fetch(gateway.url + path, { headers: { 'X-Request-Id': requestId } })
  ).arrayBuffer()
}

/** One order is refused for a quote of this long an id. */
async function refuseOne(longId: string, settings: object = {}): Promise<RunningGateway> {
  const upstream = await recordingUpstream((_request, response) =>
    giveQuote(response, quoteBody({ id: longId })),
  )
  const refusing = { SWAP_BASE_URL: upstream.url, ORDER_EXPIRY_MARGIN_MS: 60_000 }
  const gateway = await gatewayWith({ ...refusing, ...settings })
  await quote(gateway, { application: 'web' })
  await floatOrder(gateway, { application: 'web' })
  return gateway
}

describeInBrowser('the console', () => {
  test('lists requests that failed before the page was opened, and opens them by mouse and keyboard', async () => {
    const { gateway } = await recordedGateway({}, (_request, response) => {
      setTimeout(() => response.writeHead(500).end(), 30)
    })
    await fetch(`${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=1`, {
      headers: { 'App-Name': 'web' },
    })
    const { page } = await openPage(gateway.operationsUrl)
    const row = rowsOf(page, '#requests')
    await expect.poll(() => row.count()).toBe(1)
    // Not on its button.
    await row.locator('.status').first().click()
    const detail = page.locator('#requests .detail')
    const shown = await detail.textContent()
    for (const told of ['Waited for a connection', 'Upstream', 'The gateway itself'])
      expect(shown).toContain(told)
    for (const told of ['web', '127.0.0.x', "the provider's"])
      expect(shown).toContain(told)
    await row.locator('.status').first().click()
    expect(await detail.count()).toBe(0)

    const button = row.locator('button.open')
    await button.focus()
    await page.keyboard.press('Enter')
    await detail.waitFor()
    expect(await button.getAttribute('aria-expanded')).toBe('true')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Escape')
    expect(await detail.count()).toBe(0)
    expect(
      await button.evaluate((node) => node === node.ownerDocument.activeElement),
    ).toBe(true)
  })

  test('says of a 503 whether the provider answered it or it was not sent, and why', async () => {
    let held: ServerResponse | undefined
    const upstream = await recordingUpstream((request, response) => {
      if (request.target.startsWith('/checkouts')) held = response
      else response.writeHead(503).end('{}')
    })
    const gateway = await gatewayInHaste({
      SWAP_BASE_URL: upstream.url,
      PAYMENTS_BASE_URL: upstream.url,
      breakerFailures: 2,
      breakerOpenMs: 600_000,
      UPSTREAM_CONNECTIONS: 1,
      queue: 0,
    })
    await quote(gateway)
    gateway.pass(aSecond)
    await quote(gateway)
    await quote(gateway)
    const first = fetch(`${gateway.url}/checkouts`)
    await expect.poll(() => held).toBeDefined()
    const saturated = await fetch(`${gateway.url}/checkouts`)
    expect(await saturated.text()).toContain('saturated')
    held?.end()
    await first
    const { page } = await openPage(gateway.operationsUrl)
    const chips = async () => {
      const texts = await page
        .locator('#requests tbody tr td:nth-child(4)')
        .allTextContents()
      return new Set(texts)
    }
    // The payment that was answered has none.
    await expect
      .poll(chips)
      .toEqual(new Set(['', 'not sent: saturated', 'not sent: breaker', 'provider']))
    await page.locator('#requests [data-role="filter"]').fill('not sent: breaker')
    expect(await rowsOf(page, '#requests').count()).toBe(1)
    await rowsOf(page, '#requests').first().locator('button.open').click()
    expect(await page.locator('#requests .detail').textContent()).toContain(
      'the breaker was open',
    )
  })

  test('keeps an open row in its place while new rows arrive', async () => {
    const gateway = await gatewayWith()
    // As many as the panel has to scroll for.
    for (let number = 0; number < 40; number += 1)
      await askAs(gateway, `before-${number}`, '/nothing')
    const { page } = await openPage(gateway.operationsUrl)
    await askAs(gateway, 'read-that', '/nothing')
    const row = page.locator('[data-request="read-that"]')
    await row.locator('button.open').click()
    const top = async () => (await row.boundingBox())?.y
    const before = await top()
    for (let number = 0; number < 30; number += 1) await askAs(gateway, `later-${number}`)
    await page.locator('[data-request="later-29"]').waitFor()
    // A busy browser draws a new row a frame before it scrolls back by it, and rounds by a pixel or two. A row is 30 high.
    await expect
      .poll(async () => Math.abs(((await top()) ?? 0) - (before ?? 0)))
      .toBeLessThan(5)
    expect(await page.locator('#requests .detail').textContent()).toContain('read-that')
  })

  test('shows the difference of ids with equal beginnings, and copies them whole', async () => {
    const gateway = await gatewayWith()
    const { page } = await openPage(gateway.operationsUrl, {
      permissions: ['clipboard-read', 'clipboard-write'],
    })
    const ids = [
      '0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0',
      '0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f1',
    ]
    for (const id of ids) await askAs(gateway, id)
    await expect.poll(() => rowsOf(page, '#requests').count()).toBe(2)
    const texts = await page.locator('#requests tbody td.mono').allTextContents()
    expect(texts).toEqual(['…c3d2e1f1', '…c3d2e1f0'])
    await rowsOf(page, '#requests').first().click()
    await page.getByRole('button', { name: `Copy the request id ${ids[1]}` }).click()
    await page.getByText('Copied', { exact: true }).waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(ids[1])
  })

  test('filters requests by area, by the source of the error and by status', async () => {
    const { gateway } = await recordedGateway({}, (request, response) => {
      if (request.target.startsWith('/v3/assets')) response.writeHead(500).end()
      else if (request.target.startsWith('/checkouts')) response.writeHead(204).end()
      else giveQuote(response)
    })
    const { page } = await openPage(gateway.operationsUrl)
    await quote(gateway)
    await quote(gateway, { amount: '0' })
    for (const path of ['/v3/assets', '/checkouts'])
      await (await fetch(gateway.url + path)).arrayBuffer()
    await fetch(`${gateway.url}/v3/assets`, { headers: { Via: '1.1 quotegate' } })
    const statuses = async () => {
      const texts = await page
        .locator('#requests tbody tr:not([hidden]) td:nth-child(3)')
        .allTextContents()
      return texts.sort()
    }
    const choose = (role: string, value: string) =>
      page.locator(`#requests [data-role="${role}"]`).selectOption(value)
    await expect.poll(statuses).toEqual(['200', '204', '400', '500', '508'])
    for (const [role, value, left] of [
      ['source', 'any', ['400', '500', '508']],
      ['source', 'client', ['400']],
      ['source', 'provider', ['500']],
      ['source', 'gateway', ['508']],
      ['status', '2', []],
    ] as const) {
      await choose(role, value)
      expect(await statuses(), value).toEqual(left)
    }
    expect(await page.locator('#requests [data-role="empty"]').textContent()).toContain(
      'matches the filters',
    )
    await choose('source', '')
    await choose('area', 'payments')
    expect(await statuses()).toEqual(['204'])
    await choose('area', '')
    await choose('status', '4')
    expect(await statuses()).toEqual(['400'])
    expect(await page.locator('#requests [data-role="count"]').textContent()).toBe(
      '1 of the last 5',
    )
  })

  test('groups refused orders by application, and opens one with the quotes that were considered', async () => {
    const longId = `quote-${'0123456789abcdef'.repeat(4)}-the-end`
    const gateway = await refuseOne(longId)
    const { page } = await openPage(gateway.operationsUrl)
    const groups = () => page.locator('#orders .group').allTextContents()
    expect(await groups()).toEqual(['web: 1 of 1 order 0.0 s late'])
    await floatOrder(gateway, { application: 'web', amount: '7' })
    await floatOrder(gateway, { application: 'web' })
    await expect.poll(groups).toEqual(['web: 2 of 3 orders 0.0 s late'])
    await rowsOf(page, '#orders').first().locator('button.open').focus()
    await page.keyboard.press('Enter')
    const detail = page.locator('#orders .detail')
    const shown = await detail.textContent()
    for (const told of [
      '0.1 ETH_USDC',
      'ORDER_EXPIRY_MARGIN_MS',
      'none',
      '…-the-end',
      'it decided',
    ])
      expect(shown).toContain(told)
    const copy = detail.getByRole('button', { name: `Copy the quote id ${longId}` })
    expect(await copy.count()).toBe(1)
    // As where the page comes by HTTP from another machine.
    await page.evaluate(
      `Object.defineProperty(navigator, 'clipboard', { value: undefined })`,
    )
    await copy.click()
    expect(await page.evaluate('String(getSelection())')).toBe(longId)
  })

  test('names orders apart that were sent because of ORDER_EXPIRED_QUOTE=report', async () => {
    const gateway = await refuseOne('quote-1', { ORDER_EXPIRED_QUOTE: 'report' })
    const { page } = await openPage(gateway.operationsUrl)
    const group = page.locator('#orders .group')
    const total = page.locator('#orders [data-role="count"]')
    expect(await group.textContent()).toBe('web: 1 of 1 order 0.0 s late and sent')
    expect(await total.textContent()).toBe('1 reported and sent since the start')
    expect(await page.locator('[data-tile="refused"] .value').textContent()).toBe('0')
    const row = rowsOf(page, '#orders').first()
    expect(await row.locator('td').last().textContent()).toBe('0.0 s, sent')
    await row.locator('button.open').click()
    await page
      .locator('#orders .detail', {
        hasText: 'reported only: ORDER_EXPIRED_QUOTE is report',
      })
      .waitFor()
    await expectAccessible(page, [1280])
  })

  test('has one stop of the Tab key for each table, in which the arrow keys go from row to row', async () => {
    const gateway = await refuseOne('quote-1')
    for (const amount of ['2', '3', '4']) await quote(gateway, { amount })
    for (let number = 1; number <= 30; number += 1)
      await askAs(gateway, `number-${number}`, '/nothing')
    const { page } = await openPage(gateway.operationsUrl)
    await expect.poll(() => rowsOf(page, '#requests').count()).toBeGreaterThan(30)
    for (const table of ['#requests', '#quotes', '#orders']) {
      const stops = page.locator(`${table} tbody button:not([tabindex="-1"])`)
      expect(await stops.count(), table).toBe(1)
    }
    const focused = () => page.evaluate<string>('document.activeElement.title')
    await page.locator('#requests tbody button').first().focus()
    const first = await rowsOf(page, '#requests').first().getAttribute('data-request')
    expect(first).toBe('number-30')
    const openedBy = async (key: string) => {
      await page.keyboard.press(key)
      await page.keyboard.press('Enter')
      const row = page.locator('#requests tr:has([aria-expanded="true"])')
      const id = await row.getAttribute('data-request')
      await page.keyboard.press('Escape')
      return id
    }
    expect(await openedBy('ArrowDown')).toBe('number-29')
    expect(await openedBy('ArrowDown')).toBe('number-28')
    expect(await openedBy('ArrowUp')).toBe('number-29')
    expect(await openedBy('Home')).toBe('number-30')
    await page.keyboard.press('ArrowDown')
    // It comes back to the row that it left.
    await page.keyboard.press('Tab')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Enter')
    await page.locator('[data-request="number-29"] [aria-expanded="true"]').waitFor()
    expect(await focused()).toBe('/nothing')
  })

  test('prints every row, and none of what only a screen can use', async () => {
    const gateway = await gatewayWith()
    for (let number = 1; number <= 60; number += 1)
      await askAs(gateway, `number-${number}`, '/nothing')
    const { page } = await openPage(gateway.operationsUrl)
    await expect.poll(() => rowsOf(page, '#requests').count()).toBe(60)
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
    for (const gone of ['#controls', '#try', '#sandbox', '#requests .filters'])
      expect(await page.locator(gone).isVisible(), gone).toBe(false)
    const scroll = page.locator('#requests .scroll')
    expect(await scroll.evaluate((node) => node.scrollHeight - node.clientHeight)).toBe(0)
    const background = await page.evaluate<string>(
      'getComputedStyle(document.body).backgroundColor',
    )
    expect(background).toMatch(/^rgb\(2\d\d, 2\d\d, 2\d\d\)$/)
    expect((await page.pdf({ format: 'A4' })).length).toBeGreaterThan(10_000)
  })

  test('has no accessibility violation with rows open', async () => {
    const longId = `quote-${'0123456789abcdef'.repeat(8)}`
    const gateway = await refuseOne(longId)
    await askAs(
      gateway,
      `request-${'0123456789abcdef'.repeat(6)}`,
      `/nothing/${'long'.repeat(40)}`,
    )
    // Rows stand so close that a small button in one would be too near to that in the next.
    for (const amount of ['2', '3', '4']) {
      await quote(gateway, { amount, application: 'web' })
      await floatOrder(gateway, { amount, application: 'web' })
    }
    const { page } = await openPage(gateway.operationsUrl)
    for (const panel of ['#requests', '#orders']) {
      await rowsOf(page, panel).first().locator('button.open').focus()
      await page.keyboard.press('Enter')
      await page.locator(`${panel} .detail`).waitFor()
    }
    await expectAccessible(page)
    for (const width of [360, 1440]) {
      await page.setViewportSize({ width, height: 900 })
      for (const panel of ['#requests .scroll', '#orders .scroll']) {
        const tooWide = await page
          .locator(panel)
          .evaluate((node) => node.scrollWidth - node.clientWidth)
        expect(tooWide, `${panel} at ${width} px`).toBe(0)
      }
    }
  })
})
