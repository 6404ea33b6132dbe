import { readFileSync } from 'node:fs'

/** `src/` or `dist/`. This file is one folder below it; bundled, it is part of a file directly in `dist/`. */
export const programFolder = new URL(
  /\/process\/package-info\.[jt]s$/.test(import.meta.url) ? '../' : './',
  import.meta.url,
)

interface Manifest {
  version: string
  homepage?: string
}

/** Of package.json, which is one folder up from `src/` and `dist/`. */
export const { version, homepage }: Manifest = JSON.parse(
  readFileSync(new URL('../package.json', programFolder), 'utf8'),
)
