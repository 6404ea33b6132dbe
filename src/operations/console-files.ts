import { readdir, readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { programFolder } from '../process/package-info.ts'

interface ConsoleFile {
  type: string
  body: Buffer
}

const scriptType = 'text/javascript; charset=utf-8'
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': scriptType,
  '.svg': 'image/svg+xml',
}

const folder = new URL('operations/console/', programFolder)

/** Preact with htm, by which the page is drawn. A build puts it beside the page, as `htm.js`. */
const library = new URL('../node_modules/htm/preact/standalone.mjs', programFolder)

/**
 * Reads at once and keeps what it has read, so that a build beside a running gateway changes nothing that it serves.
 * Reading can fail for a moment, such as without a free descriptor; the next call tries again.
 */
export function readAtStart<Content>(read: () => Promise<Content>): () => Promise<Content> {
  let reading: Promise<Content> | undefined
  const content = () => {
    reading ??= read().catch((error) => {
      reading = undefined
      throw error
    })
    return reading
  }
  content().catch(() => {})
  return content
}

/** Finds a console file by its name. No path is ever made from a request. */
export function createConsoleFiles(): (name: string) => Promise<ConsoleFile | undefined> {
  const files = readAtStart(async () => {
    const read = new Map<string, ConsoleFile>()
    for (const name of await readdir(folder)) {
      const type = types[extname(name)]
      if (type !== undefined) read.set(name, { type, body: await readFile(new URL(name, folder)) })
    }
    if (!read.has('htm.js')) read.set('htm.js', { type: scriptType, body: await readFile(library) })
    return read
  })
  return async (name) => (await files()).get(name)
}

/** Forbids inline code, content of other origins, and markup made from strings. */
export const pageHeaders: Readonly<Record<string, string>> = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
}
