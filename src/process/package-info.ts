import { readFileSync } from 'node:fs'

/** `src/` or `dist/`: this file is one folder below it, or bundled with others into a file that is in it. */
export const programFolder = new URL(
  /\/process\/package-info\.[jt]s$/.test(import.meta.url) ? '../' : './',
  import.meta.url,
)

/** The version in package.json, which is one folder up from `src/` and `dist/`. */
export const version: string = JSON.parse(
  readFileSync(new URL('../package.json', programFolder), 'utf8'),
).version
