import { readFileSync } from 'node:fs'

const isUnbundled = /\/process\/package-info\.[jt]s$/.test(import.meta.url)
/** `src/` or `dist/`. This file is one folder below it; bundled, it is part of a file directly in `dist/`. */
export const programFolder = new URL(isUnbundled ? '../' : './', import.meta.url)

interface Manifest {
  version: string
  homepage?: string
  engines: { node: string }
}

// package.json is one folder up from `src/` and `dist/`.
const manifest = readFileSync(new URL('../package.json', programFolder), 'utf8')
export const { version, homepage, engines }: Manifest = JSON.parse(manifest)
