import fc from 'fast-check'
import { expect, test } from 'vitest'
import { HeldBodies, type HeldBody, maxHeldBytes } from '../../src/upstream/held-bodies.ts'

test.each([
  [64, 8],
  [128, 8],
  [512, 32],
  [4_096, 256],
])('of a heap limit of %i MiB unfinished bodies may hold %i MiB', (heapMiB, heldMiB) => {
  expect(maxHeldBytes({ heapBytes: heapMiB * 2 ** 20 })).toBe(heldMiB * 2 ** 20)
})

const maxBytes = 1_000
/** One body may take so many at a time. */
const largest = 200

interface Model {
  isJudged: boolean
  bytes: number
  state: 'held' | 'streams' | 'let go'
  held: HeldBody
}

/** What came of the bodies, and the order in which they were let go. */
class Stage {
  readonly bodies: Model[] = []
  readonly letGo: Model[] = []
  refused = 0
  readonly subject = new HeldBodies(maxBytes, {
    bodyRefused: () => {
      this.refused += 1
    },
  })

  begin(isJudged: boolean): void {
    const body: Model = {
      isJudged,
      bytes: 0,
      state: 'held',
      held: this.subject.hold({
        isJudged,
        letGo: () => {
          expect(body.state).toBe('held')
          this.letGo.push(body)
          this.expectOldest(body)
          body.state = isJudged ? 'let go' : 'streams'
          if (isJudged) this.release(body)
          else body.held.streams()
        },
      }),
    }
    this.bodies.push(body)
  }

  release(body: Model): void {
    body.held.release()
    body.bytes = 0
    if (body.state === 'held') body.state = 'let go'
  }

  grow(body: Model, bytes: number): void {
    body.bytes += bytes
    body.held.grow(bytes)
  }

  /** Of its kind; and nothing that need not be judged may be held any longer when an order is refused. */
  expectOldest(body: Model): void {
    const held = this.bodies.filter(({ state }) => state === 'held')
    expect(held.find(({ isJudged }) => isJudged === body.isJudged)).toBe(body)
    if (body.isJudged) expect(held.filter(({ isJudged }) => !isJudged)).toEqual([])
  }

  get bytes(): number {
    return bytesOf(this.bodies)
  }
}

const bytesOf = (bodies: readonly Model[]) => bodies.reduce((sum, { bytes }) => sum + bytes, 0)

test('the count matches the held bytes, the oldest are dropped first and orders last, and it ends at 0', () => {
  const step = fc.record({
    what: fc.constantFrom('begin', 'grow', 'grow', 'grow', 'release', 'stream'),
    isJudged: fc.boolean(),
    which: fc.nat(),
    bytes: fc.nat({ max: largest }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const stage = new Stage()
      for (const { what, isJudged, which, bytes } of steps) {
        const held = stage.bodies.filter(({ state }) => state === 'held')
        const body = held[which % Math.max(1, held.length)]
        if (what === 'begin') stage.begin(isJudged)
        else if (what === 'release') {
          const any = stage.bodies[which % Math.max(1, stage.bodies.length)]
          // Twice does no harm.
          if (any) for (let time = 0; time < 2; time += 1) stage.release(any)
        } else if (body === undefined) continue
        else if (what === 'stream') {
          body.state = 'streams'
          body.held.streams()
        } else stage.grow(body, bytes)
        expect(stage.subject.bytes).toBe(stage.bytes)
        const judgedBytes = bytesOf(stage.bodies.filter((one) => one.isJudged && one.state === 'held'))
        const startBytes = bytesOf(stage.bodies.filter((one) => !one.isJudged && one.state === 'held'))
        const otherBytes = stage.bytes - judgedBytes
        if (startBytes > 0) expect(stage.bytes).toBeLessThanOrEqual(maxBytes / 2 + largest)
        expect(judgedBytes + Math.min(otherBytes, maxBytes / 2)).toBeLessThanOrEqual(maxBytes + largest)
        if (what === 'grow' && body?.isJudged && judgedBytes > 0)
          expect(judgedBytes + Math.min(otherBytes, maxBytes / 2)).toBeLessThanOrEqual(maxBytes)
        expect(stage.refused).toBe(stage.letGo.filter((one) => one.isJudged).length)
      }
      for (const body of stage.bodies) stage.release(body)
      expect(stage.subject.bytes).toBe(0)
    }),
    { numRuns: 1_000 },
  )
})
