const places = 4096
const lengthMost = 256
/** Texts that are asked about differ at their ends: amounts, addresses. */
const endLength = 8

/**
 * The same answers, those that are wanted often without the work. Only for a function of nothing but its text. Each
 * text has one place, which it takes from whatever stood there, and only when it comes a second time: what comes once
 * would be kept just long enough to grow old, and be collected at the price of all that is old.
 */
export function remembering<Answer>(answer: (text: string) => Answer): (text: string) => Answer {
  const lastHashes = new Int32Array(places)
  const texts: (string | undefined)[] = new Array(places).fill(undefined)
  const answers: Answer[] = new Array(places)
  return (text) => {
    if (text.length > lengthMost) return answer(text)
    const hash = hashOf(text)
    const place = hash & (places - 1)
    if (texts[place] === text) return answers[place] as Answer
    const fresh = answer(text)
    if (lastHashes[place] === hash) {
      texts[place] = text
      answers[place] = fresh
    }
    lastHashes[place] = hash
    return fresh
  }
}

function hashOf(text: string): number {
  let hash = text.length
  for (let index = Math.max(0, text.length - endLength); index < text.length; index += 1)
    hash = (Math.imul(hash, 31) + text.charCodeAt(index)) | 0
  return hash
}

/** A text for keeping: one plain string in place of the tree of parts, or the slice of a longer text, that V8 makes. */
export function flattened(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
