import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'

const folder = new URL('../../src/operations/console/', import.meta.url)

/** Beside the pictures: what the page was made of when they were taken. */
export const hashFile = new URL('../../docs/images/console.sha256', import.meta.url)

/** Changes with any of the files of the console's page. */
export function hashOfConsoleFiles(): string {
  const hash = createHash('sha256')
  for (const name of readdirSync(folder).sort()) {
    const content = readFileSync(new URL(name, folder))
    hash.update(`${name} ${content.length}\n`).update(content)
  }
  return hash.digest('hex')
}
