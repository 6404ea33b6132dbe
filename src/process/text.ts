import { hash } from 'node:crypto'

/**
 * A copy in one piece, for a text that is kept. V8 may hold a text as a slice or a tree of longer ones, and keep these
 * alive.
 */
export function flatText(text: string): string {
  const flat = Buffer.from(text, 'latin1').toString('latin1')
  return flat === text ? flat : Buffer.from(text, 'utf16le').toString('utf16le')
}

const maxLength = 256

/** Shortens a text for places limited by number, not by bytes: a name in a request may have thousands. */
export function briefText(text: string): string {
  return text.length <= maxLength ? text : hash('sha256', text, 'base64url')
}

/** Template texts of several lines become one line. Values stay as they are. */
export function prose({ raw }: TemplateStringsArray, ...values: unknown[]): string {
  return String.raw(
    { raw: raw.map((part) => part.replace(/\s+/g, ' ')) },
    ...values,
  ).trim()
}

/** Cuts a caller's text, which must not make a long line or row. */
export function cutText(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength)}…`
}

/** Three decimals, as logs and console show durations. */
export function roundedMs(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}

/** Whether at most `edits` letters have to be added, dropped, changed or swapped. */
export function isWithinEdits(left: string, right: string, edits: number): boolean {
  if (left === right) return true
  let same = 0
  while (left[same] === right[same]) same++
  const [one, other] = [left.slice(same), right.slice(same)]
  if (edits === 0 || Math.abs(one.length - other.length) > edits) return false
  const isSwap = one[0] === other[1] && one[1] === other[0]
  return (
    isWithinEdits(one.slice(1), other.slice(1), edits - 1) ||
    isWithinEdits(one.slice(1), other, edits - 1) ||
    isWithinEdits(one, other.slice(1), edits - 1) ||
    (isSwap && isWithinEdits(one.slice(2), other.slice(2), edits - 1))
  )
}
