const places = 4096
const maxLength = 256
/** Most texts differ near their ends: amounts, addresses. */
const usualEnd = 8

/**
 * Memoizes a pure function in a fixed direct-mapped table. A text is stored when it comes twice in a row at its place:
 * one-off inputs would live just long enough to reach V8's old space, where collecting them is dear. `end`: texts
 * differ within this many last characters.
 */
export function memoize<Answer>(
  answer: (text: string) => Answer,
  end = usualEnd,
): (text: string) => Answer {
  const lastHashes = new Int32Array(places)
  const texts: (string | undefined)[] = new Array(places).fill(undefined)
  const answers: Answer[] = new Array(places)
  return (text) => {
    if (text.length > maxLength) return answer(text)
    const hash = hashOf(text, end)
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

function hashOf(text: string, end: number): number {
  let hash = text.length
  for (let index = Math.max(0, text.length - end); index < text.length; index += 1)
    hash = (Math.imul(hash, 31) + text.charCodeAt(index)) | 0
  return hash
}
