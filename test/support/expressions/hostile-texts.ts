import { readPattern } from './pattern.ts'

/** A text of any length: `before`, then `repeated` as often as it takes, then `after`. */
export interface HostileText {
  before: string
  repeated: string
  after: string
}

/** So that all expressions together take seconds. */
const max = { befores: 5, pairs: 40, afters: 8 }
/** Of the attacks that were seen. */
const usual = [' ', '\xa0', 'x']

/** Texts that lead an expression far, give it much to try, and then do not match. */
export function hostileTexts(expression: RegExp): HostileText[] {
  const { alphabet, leading, repeated } = readPattern(expression)
  const letters = [...new Set([...alphabet, ...usual])]
  const pairs = letters.flatMap((first) => letters.map((second) => first + second))
  const beginnings = leading.flatMap((text) =>
    Array.from(text, (_, index) => text.slice(0, index + 1)),
  )
  const befores = new Set(['', ...spread([...new Set(beginnings)], max.befores)])
  const pieces = new Set([
    ...letters,
    ...repeated,
    ...leading.filter((text) => text !== ''),
    ...spread(pairs, max.pairs),
  ])
  const afters = new Set(['', '\n', '\0', 'x', ...spread(letters, max.afters)])
  const texts: HostileText[] = []
  for (const before of befores) {
    for (const piece of pieces)
      for (const after of afters) texts.push({ before, repeated: piece, after })
  }
  return texts
}

export function written(
  { before, repeated, after }: HostileText,
  length: number,
): string {
  const room = Math.max(repeated.length, length - before.length - after.length)
  const text =
    before + repeated.repeat(Math.ceil(room / repeated.length)).slice(0, room) + after
  // Through bytes: otherwise the first expression that reads it would pay for putting it together.
  return Buffer.from(text, 'latin1').toString('latin1')
}

/** At most `count` of them, from all over the list. */
function spread(texts: readonly string[], count: number): string[] {
  if (texts.length <= count) return [...texts]
  return Array.from(
    { length: count },
    (_, index) => texts[Math.floor((index * texts.length) / count)] as string,
  )
}
