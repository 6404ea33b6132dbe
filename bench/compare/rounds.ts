import type { Figures } from '../shared/load-server.ts'
import { type Spread, spread } from './statistics.ts'

export interface Row {
  name: string
  rounds: Figures[]
}

export interface Variant {
  name: string
  measure(): Promise<Figures>
}

/** A B C A B C: a slow minute of the machine slows all variants, and a ratio is taken within a round. */
export async function interleave(
  variants: readonly Variant[],
  rounds: number,
  onStep: (text: string) => void,
): Promise<Row[]> {
  const rows: Row[] = variants.map(({ name }) => ({ name, rounds: [] }))
  for (let round = 1; round <= rounds; round += 1) {
    for (const [index, { name, measure }] of variants.entries()) {
      onStep(`round ${round}/${rounds}  ${name}`)
      rows[index]?.rounds.push(await measure())
    }
  }
  return rows
}

export function valuesOf(row: Row, figure: string): number[] {
  return row.rounds.map((figures) => figures[figure] ?? Number.NaN)
}

export function spreadOf(row: Row, figure: string): Spread {
  return spread(valuesOf(row, figure))
}
