import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type KeyedRequest, keyOf } from '../../src/quotes/request.ts'

// Few and treacherous values, so that two requests often differ in one place only.
const part = fc.oneof(
  fc.constantFrom('', 'a', '0:', '1:a', '1:', '-', '#', '10:authorization', '8:app-name'),
  fc.stringMatching(/^[01:a#-]{0,4}$/),
  fc.string({ maxLength: 3 }),
)
const header = fc.tuple(
  fc.constantFrom('app-name', 'app-version', 'authorization', 'x'),
  fc.option(part, { nil: undefined }),
)
const request: fc.Arbitrary<KeyedRequest> = fc.record({
  pair: part,
  canonicalAmount: part,
  keyedHeaders: fc.array(header, { maxLength: 3 }),
  partition: part,
  query: part,
  target: part,
  spelledPath: fc.option(part, { nil: undefined }),
})

function identity(request: KeyedRequest): string {
  const { pair, spelledPath, canonicalAmount, keyedHeaders, partition, query } = request
  // The path as spelled says the pair too.
  const asked = spelledPath === undefined ? { pair } : { spelledPath }
  const headers = keyedHeaders.map(([name, value]) => [name, value ?? null])
  return JSON.stringify([asked, canonicalAmount, headers, partition, query])
}

it('gives two requests one key exactly if their keyed parts are equal', () => {
  fc.assert(
    fc.property(request, request, fc.func(fc.boolean()), (left, other, mixed) => {
      // The second request takes each part from the first or a new one: near misses are what could collide.
      const right = Object.fromEntries(
        Object.entries(left).map(([name, value]) => [
          name,
          mixed(name) ? value : other[name as keyof KeyedRequest],
        ]),
      ) as unknown as KeyedRequest
      expect(keyOf(left, 'salt') === keyOf(right, 'salt')).toBe(
        identity(left) === identity(right),
      )
    }),
    { numRuns: 5_000 },
  )
})

it('gives another key if a character moves from one part to the next', () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 1, maxLength: 5 }),
      fc.nat(5),
      fc.nat(5),
      request,
      (text, one, other, base) => {
        const [first, second] = [one, other].map((at) =>
          keyOf(
            {
              ...base,
              spelledPath: undefined,
              pair: text.slice(0, at),
              canonicalAmount: text.slice(at),
            },
            'salt',
          ),
        )
        expect(first === second).toBe(text.slice(0, one) === text.slice(0, other))
      },
    ),
  )
})

const secret: KeyedRequest = {
  pair: 'ETH_USDC',
  canonicalAmount: '0.1',
  partition: 'ip:203.0.113.7',
  query: '',
  keyedHeaders: ['authorization', 'x-unheard-of'].map(
    (name) => [name, 's3cret'] as const,
  ),
  target: '/v3/pairs/ETH_USDC/quotes?amount=0.1',
}

it('contains no secret, also not one that a table has', () => {
  const key = keyOf(secret, 'one')
  expect(key).not.toContain('s3cret')
  expect(key).not.toContain(Buffer.from('s3cret').toString('base64url'))
  expect(keyOf(secret, 'another')).not.toBe(key)
})

it('is the same in every replica with the same salt, and contains neither user nor amount then', () => {
  const key = keyOf(secret, 'shared')
  expect(keyOf(secret, 'shared')).toBe(key)
  expect(key).toMatch(/^[\w-]{43}$/)
})
