import { hash } from 'node:crypto'

/**
 * A copy of a text in one piece, for a text that is kept. V8 may hold the text as a slice of a longer one or as a tree
 * of parts, and would keep all of these alive.
 */
export function flatText(text: string): string {
  const flat = Buffer.from(text, 'latin1').toString('latin1')
  return flat === text ? flat : Buffer.from(text, 'utf16le').toString('utf16le')
}

const maxLength = 256

/**
 * Shortens a text for places that are limited by number, not by bytes: a name in a request may have thousands of bytes.
 */
export function briefText(text: string): string {
  return text.length <= maxLength ? text : hash('sha256', text, 'base64url')
}

/** For template texts over several lines, which become one line. Values are kept as they are. */
export function prose({ raw }: TemplateStringsArray, ...values: unknown[]): string {
  return String.raw(
    { raw: raw.map((part) => part.replace(/\s+/g, ' ')) },
    ...values,
  ).trim()
}

/** Cuts a text at `maxLength`, with an ellipsis, so that a client's text makes no long line or row. */
export function cutText(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength)}…`
}

/** Rounds to three decimals, as the logs and the console show durations. */
export function roundedMs(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}

/** Whether at most `edits` letters have to be added, dropped, changed or swapped to turn one into the other. */
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
