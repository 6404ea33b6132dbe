const latin1 = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code))
/** Visible ones first: they are easier to read in a failure. */
const characters = [
  ...latin1.filter((one) => /[!-~]/.test(one)),
  ...latin1.filter((one) => !/[!-~]/.test(one)),
]

const atom =
  /\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|p\{[^}]*\}|.)|\[(?:\\.|[^\]\\])*\]|[^()|*+?]/iy
const groupBegin = /\((?:\?(?::|<\w+>|(<?[=!])))?/y
const quantifier = /(?:[*+?]|\{(\d+)(?:,\d*)?\})\??/y
const withoutWidth = /^(?:[\^$]|\\[bB])$/

/** What is needed of a regular expression to write texts for it. */
export interface Pattern {
  /** One character of each kind that it tells apart. */
  alphabet: string[]
  /** Texts that lead far into it, though perhaps not to its end. */
  leading: string[]
  /** Texts that it takes again and again. */
  repeated: string[]
}

export function readPattern({ source, flags }: RegExp): Pattern {
  const sets = new Map<string, ReadonlySet<string>>()
  const repeated = new Set<string>()
  let at = 0

  function match(form: RegExp): RegExpExecArray | undefined {
    form.lastIndex = at
    const found = form.exec(source) ?? undefined
    if (found !== undefined) at = form.lastIndex
    return found
  }

  function charactersOf(text: string): ReadonlySet<string> {
    const known = sets.get(text)
    if (known !== undefined) return known
    const form = new RegExp(`^(?:${text})$`, flags.replace(/[gmy]/g, ''))
    const set = new Set(characters.filter((one) => form.test(one)))
    sets.set(text, set)
    return set
  }

  /** The text of the first alternative, and that of the last. */
  function alternatives(): [string, string] {
    const texts = [sequence()]
    while (source[at] === '|') {
      at += 1
      texts.push(sequence())
    }
    return [texts[0]?.[0] ?? '', texts.at(-1)?.[1] ?? '']
  }

  function sequence(): [string, string] {
    let [first, last] = ['', '']
    while (at < source.length && source[at] !== '|' && source[at] !== ')') {
      const [one, other] = term()
      const counted = match(quantifier)
      if (counted !== undefined) for (const text of [one, other]) repeated.add(text)
      const count = Number(counted?.[1] ?? 1)
      first += one.repeat(count)
      last += other.repeat(count)
    }
    return [first, last]
  }

  function term(): [string, string] {
    const group = match(groupBegin)
    if (group !== undefined) {
      const texts = alternatives()
      at += 1
      return group[1] === undefined ? texts : ['', '']
    }
    const text = match(atom)?.[0]
    if (text === undefined) throw new Error(`/${source}/ cannot be read at ${at}`)
    if (withoutWidth.test(text)) return ['', '']
    const [one = ''] = charactersOf(text)
    return [one, one]
  }

  const leading = alternatives()
  const kinds = new Map<string, string>()
  for (const one of characters) {
    const kind = [...sets.values()].map((set) => (set.has(one) ? '1' : '0')).join('')
    if (!kinds.has(kind)) kinds.set(kind, one)
  }
  return {
    alphabet: [...kinds.values()],
    leading: [...new Set(leading)],
    repeated: [...repeated].filter((text) => text !== ''),
  }
}
