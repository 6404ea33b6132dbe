import { type HostileText, hostileTexts, written } from './hostile-texts.ts'

/** What the header of a request, or its target, may have. */
const longest = 16_384
/** One whose time grows with the cube would take minutes for the longest. */
const long = [1_024, longest]
const harmlessLength = 32
const maxTimesHarmless = 10
/** Long enough to tell which texts are worst. */
const middling = 128
/** In small steps: each more character may double the time of an expression that tries all combinations. */
const short = [10, 14, 18, 21, 24, 27, 30, 33] as const
/** Only such an expression takes as long for a short text. */
const endlessMs = 50
const suspects = 8
/** On a busy machine one reading, and a few in a row, may take as long as another program likes. */
const maxReadings = 6

export interface Cost {
  text: HostileText
  ms: number
  harmlessMs: number
}

/**
 * The worst of the hostile texts, where it takes more than ten times as long as harmless ones. Those are as long together,
 * of the same characters, and too short to do harm: 512 texts of 32 characters. Undefined: none does.
 */
export function tooSlow(expression: RegExp): Cost | undefined {
  const texts = hostileTexts(expression)
  // V8 compiles an expression only when it is used again.
  for (const text of texts.slice(0, 3)) read(expression, written(text, middling))
  // All of the texts, and no choice of them by a first reading: one that a busy machine left out would never end below.
  for (const length of short) {
    for (const text of texts) {
      const ms = fastest(expression, { text, length, atMostMs: endlessMs, readings: 3 })
      if (ms > endlessMs) return { text, ms, harmlessMs: endlessMs }
    }
  }
  for (const text of worstOf(expression, texts, middling)) {
    const cost = costOf(expression, text)
    if (cost.ms > cost.harmlessMs * maxTimesHarmless) return cost
  }
  return undefined
}

/** The texts that take longest in this length. */
function worstOf(
  expression: RegExp,
  texts: readonly HostileText[],
  length: number,
): HostileText[] {
  const timed = texts.map((text) => ({
    text,
    ms: readingMs(expression, [written(text, length)]),
  }))
  timed.sort((left, right) => right.ms - left.ms)
  return timed.slice(0, suspects).map(({ text }) => text)
}

function costOf(expression: RegExp, text: HostileText): Cost {
  const harmless = Array.from({ length: longest / harmlessLength }, () =>
    written(text, harmlessLength),
  )
  const harmlessMs = Math.min(
    ...Array.from({ length: 3 }, () => readingMs(expression, harmless)),
  )
  const atMostMs = harmlessMs * maxTimesHarmless
  let ms = 0
  for (const length of long)
    if (ms <= atMostMs) ms = fastest(expression, { text, length, atMostMs })
  return { text, ms, harmlessMs }
}

/** The shortest of several readings. The first that is short enough decides, because no reading is faster than it can be. */
function fastest(
  expression: RegExp,
  options: { text: HostileText; length: number; atMostMs: number; readings?: number },
): number {
  const { text, length, atMostMs, readings = maxReadings } = options
  const whole = [written(text, length)]
  let shortestMs = Number.POSITIVE_INFINITY
  for (let count = 0; count < readings && shortestMs > atMostMs; count += 1)
    shortestMs = Math.min(shortestMs, readingMs(expression, whole))
  return shortestMs
}

function readingMs(expression: RegExp, texts: readonly string[]): number {
  const startedAtMs = performance.now()
  for (const text of texts) read(expression, text)
  return performance.now() - startedAtMs
}

/** To the end of the text, as `replace` and `split` read it, where the expression is meant for that. */
function read(expression: RegExp, text: string): void {
  expression.lastIndex = 0
  if (!expression.global && !expression.sticky) {
    expression.test(text)
    return
  }
  let lastEnd = -1
  while (expression.test(text)) {
    if (expression.lastIndex === lastEnd) expression.lastIndex += 1
    lastEnd = expression.lastIndex
  }
}
