import type { LaunchOptions } from 'playwright-core'
import { environment } from './environment.ts'
import { pathOf } from './programs.ts'

/** CHROMIUM_PATH, then `chromium` on the PATH, then the browsers that playwright finds by itself. */
export async function findBrowser(): Promise<LaunchOptions | undefined> {
  const executablePath = environment().CHROMIUM_PATH ?? pathOf('chromium')
  if (executablePath !== undefined) return { executablePath }
  const { chromium } = await import('playwright-core')
  for (const options of [
    { channel: 'chromium' },
    { channel: 'chrome' },
    { channel: 'msedge' },
  ]) {
    // The only way to ask is to start one.
    const found = await chromium.launch(options).catch(() => undefined)
    await found?.close()
    if (found !== undefined) return options
  }
  return undefined
}
