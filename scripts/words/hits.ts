import { rules } from './list.ts'
import { proseOf } from './prose.ts'

export interface Hit {
  path: string
  line: number
  found: string
  write: string
}

/** In the order of their lines. */
export function hitsIn(path: string, text: string): Hit[] {
  const prose = proseOf(path, text)
  const hits = rules.flatMap(({ pattern, write }) =>
    [...prose.matchAll(pattern)].map(({ 0: found, index }) => ({
      path,
      line: prose.slice(0, index).split('\n').length,
      found: found.replace(/\W+/g, ' '),
      write,
    })),
  )
  return hits.sort((one, other) => one.line - other.line)
}
