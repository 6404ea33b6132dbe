import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createPartition } from '../../src/client/partition.ts'

const byIp = createPartition({ mode: 'ip', placeHeaders: [] })
const byHeader = createPartition({ mode: 'header', placeHeaders: ['x-place'] })

it('gives each place or address its own string', () => {
  const modes = [byIp, byHeader]
  const client = fc.record({
    address: fc.option(fc.constantFrom('192.0.2.1', '192.0.2.2', '2001:db8::1'), {
      nil: undefined,
    }),
    peerTrusted: fc.boolean(),
    place: fc.constantFrom(
      '',
      'DE',
      'FR',
      'XX',
      '192.0.2.1',
      'ip:192.0.2.1',
      'ip:2001:db8::1',
    ),
  })
  type Client = typeof client extends fc.Arbitrary<infer T> ? T : never
  const meaning = (mode: number, { address, peerTrusted, place }: Client) =>
    mode === 1 && address && peerTrusted && !['', 'XX'].includes(place)
      ? ['place', place]
      : ['address', address]

  fc.assert(
    fc.property(
      client,
      client,
      fc.nat(1),
      fc.nat(1),
      (left, right, leftMode, rightMode) => {
        const of = (mode: number, one: Client) =>
          modes[mode]?.(one, ['X-Place', one.place])
        const same =
          JSON.stringify(meaning(leftMode, left)) ===
          JSON.stringify(meaning(rightMode, right))
        expect(of(leftMode, left) === of(rightMode, right)).toBe(same)
      },
    ),
    { numRuns: 3_000 },
  )
})

it('gives each tuple of places its own string', () => {
  const value = fc.oneof(
    fc.constantFrom(
      'IR',
      'JP',
      '07',
      '',
      ',',
      '\n',
      '2:JP',
      'place:',
      'XX',
      'no region',
      'ip:192.0.2.1',
    ),
    fc.string({ unit: fc.constantFrom(...',\n:2JP"\\ '), maxLength: 4 }),
    fc.string(),
  )
  const tuple = fc.array(value, { minLength: 3, maxLength: 3 })
  const names = ['x-country', 'x-region', 'x-city']
  const partition = createPartition({ mode: 'header', placeHeaders: names })
  const of = (values: string[]) =>
    partition(
      { address: '192.0.2.1', peerTrusted: true },
      names.flatMap((name, at) => [name, values[at] ?? '']),
    )
  const byAddress = 'ip:192.0.2.1'
  let places = 0
  fc.assert(
    fc.property(
      tuple,
      tuple,
      fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
      (left, other, mixed) => {
        const right = left.map((text, at) => (mixed[at] ? text : (other[at] ?? '')))
        const [first, second] = [of(left), of(right)]
        if (first !== byAddress) places += 1
        if (first === second && first !== byAddress) expect(right).toEqual(left)
        // A tuple cut elsewhere is another tuple.
        const all = left.join('')
        const moved = of([all.slice(0, 1), all.slice(1, 2), all.slice(2)])
        if (moved === first && first !== byAddress)
          expect(left).toEqual([all.slice(0, 1), all.slice(1, 2), all.slice(2)])
      },
    ),
    { numRuns: 10_000 },
  )
  expect(places).toBeGreaterThan(1_000)
})
