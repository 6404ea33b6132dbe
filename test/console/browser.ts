import { existsSync } from 'node:fs'
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type LaunchOptions,
  type Page,
} from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished } from 'vitest'
import { environment } from '../support/machine/environment.ts'

/** CHROMIUM_PATH, then the browsers that playwright finds by itself, then Debian's package. */
async function findBrowser(): Promise<LaunchOptions | undefined> {
  const { CHROMIUM_PATH } = environment()
  if (CHROMIUM_PATH !== undefined) return { executablePath: CHROMIUM_PATH }
  for (const options of [{ channel: 'chromium' }, { channel: 'chrome' }, { channel: 'msedge' }]) {
    // The only way to ask is to start one.
    const found = await chromium.launch(options).catch(() => undefined)
    await found?.close()
    if (found !== undefined) return options
  }
  const executablePath = '/usr/bin/chromium'
  return existsSync(executablePath) ? { executablePath } : undefined
}

const found = await findBrowser()
if (found === undefined) {
  process.stderr.write(
    'SKIPPED: the tests of the console need a browser (apt-get install chromium, Chrome, or CHROMIUM_PATH)\n',
  )
}

/** Tests in a real browser; without one they are skipped, and it is said. */
export function describeInBrowser(name: string, tests: () => void): void {
  // A page takes seconds to load on a machine that is busy.
  describe.skipIf(found === undefined)(name, { timeout: 90_000 }, tests)
}

let browser: Browser | undefined

/** One browser for the tests of a file, with a new profile. */
export function useBrowser(): void {
  if (found === undefined) return
  beforeAll(async () => {
    browser = await chromium.launch({
      ...found,
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
