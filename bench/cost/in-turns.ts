import { fromBackend, measureWarm } from '../compare/cases/case.ts'
import { type Column, type Row, shown, spread, valuesOf } from '../compare/results.ts'
import type { Placed } from '../shared/stage.ts'
import { table } from '../shared/table.ts'
import type { Load } from '../shared/wrk.ts'

export type Kind = Partial<Load> & { target: string }

export interface Variant {
  name: string
  placed: Placed
  /** Made for each load, because what one has asked for is no longer new. */
  kinds: Record<string, () => Kind>
  close?(): unknown
}

/** Each kind of request by each variant. */
export type Measured = Map<string, Row[]>

export async function inTurns(
  variants: readonly Variant[],
  { rounds, seconds, say }: { rounds: number; seconds: number; say(text: string): void },
): Promise<Measured> {
  const measured: Measured = new Map()
  for (const kind of Object.keys(variants[0]?.kinds ?? {})) {
    const loadables = variants.map(({ name, placed, kinds }) => ({
      name,
      load: (duration: number) =>
        placed.load({ ...fromBackend, seconds: duration, ...(kinds[kind]?.() as Kind) }),
    }))
    const progress = (text: string) => say(`${kind}: ${text}`)
    measured.set(
      kind,
      await measureWarm(loadables, { quick: rounds === 1, rounds, seconds, progress }),
    )
  }
  return measured
}

export const cpuColumn = {
  figure: 'cpuMicros',
  title: 'processor time, µs a request',
  digits: 0,
}

/** Medians with their spreads, and the ratios to the first variant, round by round. */
export function compared(measured: Measured, { figure, title, digits }: Column): string {
  const [variants = []] = measured.values()
  const head = variants.flatMap(({ name }, index) =>
    index === 0 ? [name] : [name, 'ratio'],
  )
  const rows = Array.from(measured, ([kind, [first, ...others]]) => {
    const own = first ? valuesOf(first, figure) : []
    const cells = others.flatMap((row) => {
      const values = valuesOf(row, figure)
      const ratios = values.map((value, round) => value / (own[round] ?? Number.NaN))
      return [shown(spread(values), digits), shown(spread(ratios), 2)]
    })
    return [kind, shown(spread(own), digits), ...cells]
  })
  return table([title, ...head], rows)
}
