import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest'
import { findBrowser } from '../support/machine/browser.ts'

/** Tests in a real browser. */
export function describeInBrowser(name: string, tests: () => void): void {
  // A page takes seconds to load on a machine that is busy.
  describe(name, { tags: ['chromium'], timeout: 90_000 }, tests)
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
  /** What the browser complained of. */
  complaints: string[]
  /** Everything that was asked for. */
  urls: string[]
}

/** A page in a profile of its own, of which everything is noted that should not be. */
export async function openPage(url: string, options: BrowserContextOptions = {}): Promise<Watched> {
  if (browser === undefined) throw new Error('the browser was not started')
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
  onTestFinished(() => context.close())
  const page = await context.newPage()
  const watched: Watched = { page, complaints: [], urls: [] }
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) watched.complaints.push(message.text())
  })
  page.on('pageerror', (error) => watched.complaints.push(error.message))
  page.on('request', (request) => watched.urls.push(request.url()))
  await page.goto(url)
  await page.locator('#connection[data-state="live"]').waitFor()
  return watched
}

export function expectPeace({ complaints, urls }: Watched, origin: string): void {
  expect(complaints).toEqual([])
  expect(urls.filter((url) => new URL(url).origin !== new URL(origin).origin)).toEqual([])
}
