import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createAreaReader } from '../../src/http/area.ts'

const reader = (payments: readonly string[]) =>
  createAreaReader({ swap: ['/v3'], payments, webhooks: ['/webhooks'] })
const read = reader(['/checkouts', '/subscriptions', '/pay/v1'])

function areaOf(target: string): string {
  const reading = read(target)
  return 'area' in reading ? reading.area : 'problem' in reading ? 'refused' : 'asterisk'
}

describe('the area of a target', () => {
  test.each([
    ['/v3/pairs/ETH_USDC/quotes?amount=1', 'quote'],
    ['/v3/pairs/quotes/quotes', 'quote'],
    ['/v3/pairs%5cETH_USDC/quotes%5C', 'quote'],
    ['/v3/pairs/quotes', 'swap'],
    ['/v3/pairs//quotes', 'swap'],
    ['/v3/pairs/ETH_USDC/quotes/1', 'swap'],
    ['/v3/pairs/ETH/USDC/quotes/', 'swap'],
    // A quote has no format.
    ['/v3/pairs/ETH_USDC/quotes.json', 'swap'],
    ['/v3/pairs/ETH_USDC/quotes%20', 'swap'],
    ['/v3', 'swap'],
    ['/v3x/pairs', 'none'],
    ['/v3%2Fpairs', 'none'],
    ['/x/v3', 'none'],
    ['//v3', 'none'],
    ['/checkouts//x', 'payments'],
    ['/pay/v12', 'none'],
    ['/pay', 'none'],
    ['/Checkouts', 'none'],
    ['/checkouts%2Fx', 'none'],
    ['/webhooks/a/b', 'webhooks'],
    ['/webhooksx', 'none'],
    ['/', 'none'],
    ['*', 'asterisk'],
    ['HTTPS://evil.example:1/checkouts?x', 'payments'],
    ['http://evil.example?/v3', 'none'],
  ])('%s is %s', (target, area) => expect(areaOf(target)).toBe(area))

  test.each([
    ['//evil.example/x', 'payments'],
    ['/v3x', 'payments'],
    ['/v4x', 'payments'],
    ['/v4-beta', 'payments'],
    ['/x/v4', 'payments'],
    ['/v%2534', 'payments'],
    ['/v3/v4', 'swap'],
    ['/V3/pairs/A/quotes', 'quote'],
    ['//v3/orders/float', 'float-order'],
    ['/webhooks/v4', 'webhooks'],
  ])('%s is %s when every path is a payments path', (target, area) => {
    expect(reader(['/'])(target)).toMatchObject({ area, target })
  })
})

// A v4 of the swap API exists. The payments API has no versions, so a version is never meant for it. An odd spelling of
// /v3 went to the payments API, or, where both are one server, to the swap API without Forwarded.
describe('a version other than /v3, or /v3 in a spelling that some routers take for it', () => {
  test.each([
    '/v4',
    '/v4.1/x',
    '//v4//pairs',
    '/%764',
    '/;a/v4',
    '/V3/assets',
    'http://evil.example/v4/pairs',
  ])('%s goes to no API', (target) => {
    for (const paths of [['/'], ['/', '/checkouts'], ['/checkouts']]) {
      expect(reader(paths)(target)).toMatchObject({ area: 'none', upstream: undefined })
    }
  })

  test('goes to no API in any mixture of spellings', () => {
    const letter = fc.constantFrom('v', 'V', '%76', '%56')
    const digit = fc.nat({ max: 9 }).chain((n) => fc.constantFrom(String(n), `%3${n}`))
    const slash = fc.constantFrom('/', '//', '///', '/;a=b/', '/%2F')
    const end = fc.constantFrom(
      '',
      '/',
      '/x',
      '//x',
      '%2fx',
      ';a',
      '%3Ba/x',
      '.1',
      '.json',
      '?a=b',
    )
    const version = fc.tuple(
      slash,
      letter,
      fc.array(digit, { minLength: 1, maxLength: 4 }),
      end,
    )
    fc.assert(
      fc.property(version, ([start, v, digits, rest]) => {
        const target = `${start}${v}${digits.join('')}${rest}`
        fc.pre(!/^\/v3(?:[/?]|$)/.test(target))
        expect(reader(['/'])(target)).toMatchObject({ area: 'none', target })
      }),
      { numRuns: 500 },
    )
  })
})

describe('a path that upstream routers may fold to that of a quote', () => {
  test.each([
    ['/v3/pairs/DAI%2FUSDC/quotes', 'DAI%2FUSDC', 'plain'],
    ['/v3/pairs/DAI;x/quotes', 'DAI;x', 'plain'],
    ['/v3/pairs/DAI%255FUSDC/quotes', 'DAI%255FUSDC', 'plain'],
    ['/v3/pairs/DAI%5FUSDC/quotes?amount=1', 'DAI_USDC', 'odd'],
    ['/v3/pairs/DAI%2FUSDC/quotes/', 'DAI%2FUSDC', 'odd'],
    ['/v3/Pairs/Dai_Usdc/QUOTES', 'Dai_Usdc', 'odd'],
    ['/v3//pairs/DAI_USDC///quotes//', 'DAI_USDC', 'odd'],
    ['/v3/pairs/DAI_USDC/%71uotes', 'DAI_USDC', 'odd'],
    ['/v3/pairs/DAI_USDC%2Fquotes', 'DAI_USDC', 'odd'],
    ['/v3/pairs/DAI_USDC;a=b/quotes;c', 'DAI_USDC', 'odd'],
  ])('%s means the pair %s', (target, pair, spelling) => {
    const reading = read(target)
    expect(reading).toMatchObject({ area: 'quote', target, quote: { pair } })
    const path = target.split('?')[0]
    expect('quote' in reading && reading.quote?.spelledPath).toBe(
      spelling === 'plain' ? undefined : path,
    )
  })
})

describe('a path that upstream routers may fold to an order path', () => {
  // One of each kind: the properties below make the others, and test/promises/every-path-to-orders.test.ts sends some.
  test.each([
    ['/v3/orders/float?x=/', 'float-order'],
    ['/v3/orders;a/float;b=c;d/', 'float-order'],
    ['/v3/orders;a%2fb/float', 'float-order'],
    [`/v3/orders${'.a'.repeat(4_000)}!`, 'order'],
    [`/v3/orders${'/.a'.repeat(2_700)}`, 'order'],
    ['/v3/orders/float%00x', 'float-order'],
    ['/v3/orders%00/1', 'order'],
    ['/v3/orders%00/float', 'float-order'],
    ['/v3/or%0dders/%0AFl%20oat', 'float-order'],
    ['/v3/orders/float%7f', 'float-order'],
    ['/v3/orders/1+', 'swap'],
    ['/v3/orders/1.json', 'swap'],
    ['/v3/orders/1%5c2', 'swap'],
    ['/v3/orders/float/1', 'swap'],
    ['/v3/orders/float.json/1', 'swap'],
    ['/v3/orders/float%20/1', 'swap'],
    ['/v3/orders/float2.json', 'swap'],
    ['/v3/orders/float%21', 'swap'],
    ['/v3/orders/float%c3%a0', 'swap'],
    ['/v3/order', 'swap'],
    // Escaped twice is another path to everyone.
    ['/v3/orders%252Ffloat', 'swap'],
  ])('%s is judged as %s, and sent unchanged', (target, area) => {
    expect(read(target)).toMatchObject({ area, target })
  })

  const orderPaths = [
    ['/orders/float', 'float-order'],
    ['/orders', 'order'],
  ] as const
  const spelled = (text: string) =>
    fc
      .tuple(
        ...[...text].map((character) =>
          fc.tuple(fc.constant(character), fc.nat({ max: 4 })),
        ),
      )
      .map((parts) => parts.map(([character, way]) => spell(character, way)).join(''))

  test.each(orderPaths)('%s is recognised in every spelling', (path, area) => {
    fc.assert(
      fc.property(
        spelled(path),
        fc.constantFrom('', '/', '//', '.json', '%2eXml/'),
        (spelling, end) => {
          const target = `/v3${spelling}${end}`
          expect(read(target)).toMatchObject({ area, target })
        },
      ),
    )
  })

  // Each of these is dropped, or taken for a slash, by some router.
  const dropped = fc.oneof(
    fc.constantFrom(
      '.',
      '...',
      '%2e',
      '.v1',
      '.mp4',
      '.json5',
      '.json',
      '%2eTar.gz',
      '.~!$@%c3%a9',
    ),
    fc.constantFrom('%20', '%09', '%0a', '%0D', '%00', '%1f'),
    fc.constantFrom(
      '/',
      '//',
      '%2f',
      '%5c',
      '%5C',
      ';',
      ';x=1',
      '%3bx=1',
      ';a%2fb',
      ';a%5cb',
    ),
  )

  test.each(orderPaths)(
    '%s is judged, or refused, with any row of suffixes that routers drop',
    (path, area) => {
      fc.assert(
        fc.property(fc.array(dropped, { maxLength: 6 }), (suffix) => {
          const target = `/v3${path}${suffix.join('')}`
          const reading = read(target)
          // A dot segment is refused.
          if (!('problem' in reading)) expect(reading).toMatchObject({ area, target })
        }),
        { numRuns: 5_000 },
      )
    },
  )

  test('an order that is looked up by its id is not taken for a new order, whatever stands behind its id', () => {
    const id = fc.stringMatching(/^[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,40}$/)
    fc.assert(
      fc.property(id, fc.array(dropped, { maxLength: 3 }), (name, suffix) => {
        fc.pre(!/^float(?:$|[.])/i.test(name))
        const reading = read(`/v3/orders/${name}${suffix.join('')}`)
        if (!('problem' in reading)) expect(reading).toMatchObject({ area: 'swap' })
      }),
    )
  })
})

function spell(character: string, way: number): string {
  if (character === '/') return '/'.repeat(1 + (way % 3))
  const code = (letter: string) => letter.charCodeAt(0).toString(16)
  const upper = character.toUpperCase()
  const escaped = [
    `%${code(character)}`,
    `%${code(upper)}`,
    `%${code(character).toUpperCase()}`,
  ]
  return [character, upper, ...escaped][way] ?? character
}

describe('a target that is refused', () => {
  test.each([
    '/..',
    '/checkouts/..;a=b/x',
    '/checkouts/%2e%2e%3bx',
    '/checkouts\\x',
    '/checkouts/\x01',
    '/checkouts/a b',
    '/checkouts/\xe9',
    '/checkouts/\x7f',
    '/checkouts/%',
    '/checkouts/%zz',
    '/checkouts#x',
    '/checkouts?x#y',
    '/checkouts?x y',
    '/checkouts?\x00',
    'checkouts',
    '',
    'ftp://g/checkouts',
    'http:/checkouts',
    '**',
  ])('is %j', (target) => expect(areaOf(target)).toBe('refused'))

  test('is every path with a dot segment, in any spelling, at any place', () => {
    const segment = fc.stringMatching(/^[A-Za-z0-9._~-]{0,6}$/)
    const dot = fc.constantFrom('.', '%2e', '%2E')
    const dots = fc.oneof(
      dot,
      fc.tuple(dot, dot).map((two) => two.join('')),
    )
    const slash = fc.constantFrom('/', '%2f', '%2F', '%5c', '%5C')
    const tail = fc.constantFrom('', '?a=b', '/', '/x', ';x', '%3Bx', '%2fx', '%5cx')
    const start = fc.constantFrom('/v3', '/checkouts', '')
    fc.assert(
      fc.property(
        start,
        fc.array(segment),
        slash,
        dots,
        tail,
        (first, before, separator, dotted, end) => {
          const path = [first, ...before].join('/')
          const target = `${path.startsWith('/') ? path : '/x'}${separator}${dotted}${end}`
          expect(areaOf(target)).toBe('refused')
        },
      ),
      { numRuns: 500 },
    )
  })

  test('does not have dots as only a part of a segment', () => {
    for (const segment of ['...', '.a', 'a.', 'a..b', '%2ea', '....', '%2e%2e%2e'])
      expect(areaOf(`/checkouts/${segment}`)).toBe('payments')
  })
})

test('every legal target is either refused or sent unchanged', () => {
  const piece = fc.constantFrom(
    ...[
      '/',
      '//',
      'v3',
      'V3',
      'orders',
      'float',
      'checkouts',
      '.',
      '..',
      '%2e',
      '%2F',
      '%',
    ],
    ...['?', '&a=b', ';', 'x', '~', '%c3%a9', '\\'],
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 10 }), (pieces) => {
      const target = `/${pieces.join('')}`
      const reading = read(target)
      if (!('problem' in reading))
        expect(reading).toMatchObject({ target, path: target.split('?')[0] })
    }),
    { numRuns: 1000 },
  )
})
