const answersMost = 1024
const lengthMost = 256

/** The same answers, the recent ones without the work. Only for a function of nothing but its text. */
export function remembering<Answer>(answer: (text: string) => Answer): (text: string) => Answer {
  const answers = new Map<string, { answer: Answer }>()
  return (text) => {
    const known = answers.get(text)
    if (known !== undefined) return known.answer
    const fresh = { answer: answer(text) }
    // Emptied rather than evicted one by one: what is asked for often is back at once.
    if (answers.size >= answersMost) answers.clear()
    if (text.length <= lengthMost) answers.set(text, fresh)
    return fresh.answer
  }
}
