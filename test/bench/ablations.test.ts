import { expect, test } from 'vitest'
import { ablations } from '../../bench/cost/ablations.ts'
import { editing } from '../../bench/cost/edited-build.ts'

// They name lines of src, so that a change there would otherwise be found by who measures next.
test.each(ablations)(
  'what measures the cost of $name still finds its lines',
  ({ edits }) => {
    expect(() => editing(edits)).not.toThrow()
  },
)

test('all ablations of a way fit into one build', () => {
  for (const way of ['GET', 'hit', 'miss', 'order'] as const) {
    const edits = ablations.flatMap((one) =>
      (one.ways?.includes(way) ?? true) ? one.edits : [],
    )
    expect(() => editing(edits)).not.toThrow()
  }
})
