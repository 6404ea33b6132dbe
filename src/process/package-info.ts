import { readFileSync } from 'node:fs'

const isUnbundled = /\/process\/package-info\.[jt]s$/.test(import.meta.url)
/** `src/` or `dist/`: this file is one folder below it, or bundled in a file directly in `dist/`. */
export const programFolder = new URL(isUnbundled ? '../' : './', import.meta.url)

interface Manifest {
  version: string
  homepage?: string
  engines: { node: string }
}

const manifest = readFileSync(new URL('../package.json', programFolder), 'utf8')
export const { version, homepage, engines }: Manifest = JSON.parse(manifest)
