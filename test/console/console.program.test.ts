import { expect, test } from 'vitest'
import { act, floatOrder, quote } from '../operations/support.ts'
import { giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { describeInBrowser, openPage, useBrowser } from './browser.ts'

const hostileName = '<img src=x onerror=document.title=1>'

useBrowser()

/** A gateway whose provider answers each request for a quote with this body. */
async function gatewayGiving(body: () => string, headers?: readonly string[]) {
  const upstream = await recordingUpstream((_request, response) =>
    giveQuote(response, body(), headers),
  )
  return gatewayWith({ SWAP_BASE_URL: upstream.url })
}

/** Notes the texts and the widths of the countdown as they are drawn, however late the test looks at them. */
const noteCountdown = `globalThis.drawn = []
  new MutationObserver(() => {
    const row = document.querySelector('#quotes tbody tr')
    const fill = row?.querySelector('.fill').getBoundingClientRect().width
    if (row) drawn.push([Number.parseFloat(row.querySelector('.left').textContent), fill])
  }).observe(document.querySelector('#quotes'), { subtree: true, childList: true, characterData: true })`

describeInBrowser('the console', () => {
  test('counts a quote down to zero, and then removes its row', async () => {
    const gateway = await gatewayWith()
    await act(gateway, 'faults', { quoteLifetimeMs: 4_000 })
    const { page } = await openPage(gateway.operationsUrl)
    await page.evaluate(noteCountdown)
    await quote(gateway)
    await page.locator('#quotes tbody tr').waitFor()
    await page.locator('#quotes [data-role="empty"]').waitFor()
    const drawn = await page.evaluate<[number, number][]>('drawn')
    expect(drawn.length).toBeGreaterThan(3)
    // What the gateway says next may be a tenth of a second more.
    const isMore = ([left]: [number, number], at: number) =>
      left > (drawn[at - 1]?.[0] ?? left) + 0.11
    expect(drawn.filter(isMore)).toEqual([])
    const [[first, wide] = [0, 0]] = drawn
    const [last, narrow] = drawn.at(-1) ?? [0, 0]
    expect([last < first, narrow < wide]).toEqual([true, true])
  })

  test('shows a miss, then a hit, then the 409 of an order that came too late', async () => {
    const gateway = await gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
    const { page } = await openPage(gateway.operationsUrl)
    await page.locator('[name="quoteLifetimeMs"]').fill('60000')
    await page.locator('[name="orderOutcome"]').selectOption('refunded')
    const faults = async () =>
      (await fetch(`${gateway.sandboxUrl}/sandbox/faults`)).json()
    await expect
      .poll(faults)
      .toMatchObject({ quoteLifetimeMs: 60_000, orderOutcome: 'refunded' })
    const steps = page.locator('#try .steps li')
    for (const [index, how] of ['miss', 'hit'].entries()) {
      await page.getByRole('button', { name: 'Ask for a quote' }).click()
      expect(await steps.nth(index).textContent()).toBe(how)
    }
    expect(await page.locator('#try pre.curl').textContent()).toContain(
      `'${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=0.1'`,
    )
    await page.getByRole('button', { name: 'Place the order' }).click()
    await page.locator('#try .status', { hasText: '409' }).waitFor()
    expect(await page.locator('#try pre.body').textContent()).toContain(
      'urn:quotegate:problem:quote-expired',
    )
    await page.locator('#orders tbody tr', { hasText: 'ETH_USDC' }).waitFor()
    await page.locator('#requests tbody tr', { hasText: '409' }).waitFor()
    await page.locator('#requests .chip', { hasText: 'hit' }).first().waitFor()
  })

  test('shows an answer that is not a quote unchanged, and counts down a quote that is not cached', async () => {
    const bodies = [
      quoteBody({ expiry: Date.now() + 3_600_000 }),
      '{"toAmount":{"value":"1"}}',
      '{"toAmount":null,"fromAmount":null}',
    ]
    let answer = ''
    const gateway = await gatewayGiving(
      () => answer,
      ['Content-Type', 'application/json', 'Vary', '*'],
    )
    const { page } = await openPage(gateway.operationsUrl)
    for (const [index, body] of bodies.entries()) {
      answer = body
      await page.getByRole('button', { name: 'Ask for a quote' }).click()
      await page.locator('#try .steps li').nth(index).waitFor()
      const shown = await page.locator('#try pre.body').textContent()
      expect(JSON.parse(shown ?? '')).toEqual(JSON.parse(body))
      const isQuote = index === 0
      expect(await page.locator('#try [name="body"]').isVisible()).toBe(isQuote)
      if (!isQuote) continue
      expect(await page.locator('#try .left').textContent()).toMatch(/^[\d.]{6,} s$/)
      // Not in a sandbox, so an order has to be meant.
      await page.getByRole('button', { name: 'Place the order' }).click()
      await page.locator('#try .error', { hasText: 'Tick the box first.' }).waitFor()
      expect(await page.locator('#try .steps li').count()).toBe(1)
    }
  })

  test('keeps every column visible next to a long name, and the page as narrow as a phone', async () => {
    const pair = 'A'.repeat(200)
    const gateway = await gatewayGiving(() =>
      quoteBody({ pairId: pair, expiry: Date.now() + 600_000 }),
    )
    await quote(gateway, { pair, amount: `0.${'0'.repeat(70)}1` })
    const { page } = await openPage(gateway.operationsUrl)
    await page.locator('#quotes tbody tr').waitFor()
    // As of a store that has been full for a while.
    await page.locator('[data-item="store"] .dim').evaluate((node) => {
      node.textContent = '100.0k quotes, 64.0 MiB; ledger 200.0k'
    })
    for (const width of [320, 1280]) {
      await page.setViewportSize({ width, height: 800 })
      for (const part of ['html', '#quotes .scroll']) {
        const tooWide = page
          .locator(part)
          .evaluate((node) => node.scrollWidth - node.clientWidth)
        expect(await tooWide, `${part} at ${width} px`).toBe(0)
      }
    }
  })

  test('shows the App-Name of a caller as text, not as HTML', async () => {
    const gateway = await gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
    await quote(gateway, { application: hostileName })
    await floatOrder(gateway, { application: hostileName })
    const { page } = await openPage(gateway.operationsUrl)
    await quote(gateway, {
      application: hostileName,
      pair: `%3Cimg src=x onerror=document.title=1%3E`,
    })
    await page.locator('#orders tbody', { hasText: hostileName }).waitFor()
    await page.locator('#requests .open').first().click()
    await page.locator('#requests .detail', { hasText: hostileName }).waitFor()
    await page.fill('#orders [name="application"]', hostileName)
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.locator('#orders .outcome', { hasText: hostileName }).waitFor()
    await page.fill('#try [name="application"]', hostileName)
    await page.getByRole('button', { name: 'Ask for a quote' }).click()
    await page.locator('#try pre.curl', { hasText: hostileName }).waitFor()
    expect(await page.locator('main img').count()).toBe(0)
    expect(await page.title()).toBe('quotegate')
  })

  test('filters, sorts and drops, by keyboard alone', async () => {
    const gateway = await gatewayWith()
    for (const amount of ['2', '10', '0.5']) await quote(gateway, { amount })
    await quote(gateway, { pair: 'BTC_USDC' })
    const { page } = await openPage(gateway.operationsUrl)
    const amounts = () =>
      page.locator('#quotes tbody tr:not([hidden]) td:nth-child(2)').allTextContents()
    await page.locator('#quotes [data-role="filter"]').focus()
    await page.keyboard.type('eth')
    await expect.poll(async () => (await amounts()).length).toBe(3)
    await page.locator('#quotes th[data-column="amount"] button').focus()
    await page.keyboard.press('Enter')
    expect(await amounts()).toEqual(['10', '2', '0.5'])
    expect(await page.locator('#quotes th[aria-sort]').getAttribute('aria-sort')).toBe(
      'descending',
    )
    await page.getByRole('button', { name: 'Drop ETH_USDC 10' }).focus()
    await page.keyboard.press('Enter')
    await expect.poll(amounts).toEqual(['2', '0.5'])
    // What comes next from the gateway shows it as dropped too.
    await quote(gateway, { amount: '7' })
    await expect.poll(amounts).toEqual(['7', '2', '0.5'])
  })

  test('has a row for each cache entry of one quote, and counts no more than it lists', async () => {
    const body = quoteBody({ expiry: Date.now() + 600_000 })
    const gateway = await gatewayGiving(() => body)
    const { page } = await openPage(gateway.operationsUrl)
    const count = () => page.locator('#quotes [data-role="count"]').textContent()
    for (const application of ['a', 'b', 'c']) await quote(gateway, { application })
    await expect.poll(count, { timeout: 20_000 }).toBe('3 live')
    for (let number = 0; number < 100; number += 1)
      await quote(gateway, { application: `more-${number}` })
    await expect.poll(count, { timeout: 20_000 }).toBe('the 80 most requested')
    expect(await page.locator('#quotes tbody tr').count()).toBe(80)
  })
})
