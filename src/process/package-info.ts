import { readFileSync } from 'node:fs'

/** `src/` or `dist/`. This file is one folder below it; bundled, it is part of a file directly in `dist/`. */
export const programFolder = new URL(
  /\/process\/package-info\.[jt]s$/.test(import.meta.url) ? '../' : './',
  import.meta.url,
)

/** The version in package.json, which is one folder up from `src/` and `dist/`. */
export const version: string = JSON.parse(
  readFileSync(new URL('../package.json', programFolder), 'utf8'),
).version
