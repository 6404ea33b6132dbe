import { existsSync } from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest'

const executablePath = '/usr/bin/chromium'
const isThere = existsSync(executablePath)
if (!isThere) {
  process.stderr.write(
    `SKIPPED: the tests of the console need ${executablePath} (apt-get install chromium)\n`,
  )
}

/** Tests in a real browser; without one they are skipped, and it is said. */
export const describeInBrowser = describe.skipIf(!isThere)

let browser: Browser | undefined

/** One browser for the tests of a file, with a new profile. */
export function useBrowser(): void {
  if (!isThere) return
  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath,
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
  if (browser === undefined) throw new Error('there is no browser')
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
