import type { StoredQuote } from '../quotes/quote.ts'

/** Without its end, which the store keeps by its own clock. */
export type EncodedQuote = Omit<StoredQuote, 'end'>

/**
 * Encodes a quote for the shared store: a line with its id, a line with what is needed to serve it, and its body, byte
 * for byte. JSON has no line breaks, so a script can compare the first line to find out which quote this is.
 */
export function encodeQuote({ id, body, headers, lifeMs, expiresAtMs }: EncodedQuote): Buffer {
  const head = `${idLine(id)}${JSON.stringify([lifeMs, expiresAtMs, ...headers])}\n`
  return Buffer.concat([Buffer.from(head), Buffer.from(body, 'latin1')])
}

/** The first line of an encoded quote. */
export function idLine(id: string): string {
  return `${JSON.stringify(id)}\n`
}

/** Undefined: the bytes are not what `encodeQuote` writes; another version of quotegate may have written them. */
export function decodeQuote(bytes: Buffer): EncodedQuote | undefined {
  const idEnd = bytes.indexOf(lineBreak)
  const headEnd = bytes.indexOf(lineBreak, idEnd + 1)
  if (idEnd === -1 || headEnd === -1) return undefined
  try {
    const id: unknown = JSON.parse(bytes.toString('utf8', 0, idEnd))
    const head: unknown = JSON.parse(bytes.toString('utf8', idEnd + 1, headEnd))
    if (typeof id !== 'string' || !Array.isArray(head)) return undefined
    const [lifeMs, expiresAtMs, ...headers] = head
    if (!Number.isFinite(lifeMs) || !Number.isFinite(expiresAtMs)) return undefined
    if (headers.length % 2 !== 0 || !headers.every((part) => typeof part === 'string')) return undefined
    return { id, body: bytes.toString('latin1', headEnd + 1), headers, lifeMs, expiresAtMs }
  } catch {
    return undefined
  }
}

const lineBreak = 0x0a
