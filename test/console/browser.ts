import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest'
import { findBrowser } from '../support/machine/browser.ts'

/** Tests in a real browser. */
export function describeInBrowser(name: string, tests: () => void): void {
  // A page takes seconds to load on a machine that is busy, and axe-core takes seconds for each look.
  describe(name, { tags: ['chromium'], timeout: 300_000 }, tests)
}

let browser: Browser | undefined

/** One browser for the tests of a file, with a new profile. */
export function useBrowser(): void {
  beforeAll(async () => {
    browser = await chromium.launch({
      ...(await findBrowser()),
      args: [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    })
  })
  afterAll(() => browser?.close())
}

export interface Watched {
  page: Page
  /** What the browser complained of, and what another server was asked for. */
  complaints: string[]
}

/** A page in a profile of its own. A test without `mayComplain` ends without any complaint. */
export async function openPage(
  url: string,
  {
    mayComplain = false,
    ...options
  }: BrowserContextOptions & { mayComplain?: boolean } = {},
): Promise<Watched> {
  if (browser === undefined) throw new Error('the browser was not started')
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    ...options,
  })
  const page = await context.newPage()
  const complaints: string[] = []
  onTestFinished(async () => {
    await context.close()
    if (!mayComplain) expect(complaints).toEqual([])
  })
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin)
      complaints.push(`asked for ${request.url()}`)
  })
  await page.goto(url)
  await page.locator('#connection[data-state="live"]').waitFor()
  return { page, complaints }
}

const axe = readFileSync(
  createRequire(import.meta.url).resolve('axe-core/axe.min.js'),
  'utf8',
)

/** At each of these widths, dark and light, axe-core finds nothing, small targets included, and nothing is wider than the page. */
export async function expectAccessible(
  page: Page,
  widths: readonly number[] = [360, 1024, 1440],
): Promise<void> {
  // Not as a script element: the page's Content-Security-Policy would refuse it.
  await page.evaluate(`${axe};undefined`)
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme })
      const found =
        await page.evaluate(`axe.run(document, { rules: { 'target-size': { enabled: true } } })
        .then(({ violations, incomplete }) =>
          // It is not sure of targets that the Tab key does not reach: those of the rows but one.
          [...violations, ...incomplete.filter(({ id }) => id === 'target-size')].flatMap(({ id, nodes }) =>
            nodes.map(({ target, failureSummary }) => id + ' at ' + target.join(' ') + ': ' + failureSummary)))`)
      expect(found, `${width} px, ${colorScheme}`).toEqual([])
    }
  }
}
