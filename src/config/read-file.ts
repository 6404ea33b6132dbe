import { readFileSync } from 'node:fs'

/** Reads a whole file. Throws an error that says why it cannot. */
export type ReadFile = (path: string) => Uint8Array

export const readSystemFile: ReadFile = (path) => readFileSync(path)

/** The text of a file, or what would be right in its place. `expected` repeats nothing of the text. */
export function readText(path: string, readFile: ReadFile): { text: string } | { expected: string } {
  let bytes: Uint8Array
  try {
    bytes = readFile(path)
  } catch (error) {
    const { code } = error as { code?: unknown }
    return { expected: `a file that quotegate can read (${code ?? 'it cannot be read'})` }
  }
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    return { expected: 'a file of UTF-8 text' }
  }
}
