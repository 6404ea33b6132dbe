import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { endToEndHeaders, headerLines, nominatedIn } from '../../src/http/headers.ts'
import { refuseLoop } from '../../src/server/swap-headers.ts'

const keepsAll = () => false
const hopByHop =
  'connection keep-alive proxy-connection te trailer transfer-encoding upgrade http2-settings'.split(
    ' ',
  )
const protectedNames =
  'host content-length user-agent authorization forwarded via app-name app-version app-x'.split(
    ' ',
  )

const anyName = fc.oneof(
  fc.mixedCase(
    fc.constantFrom(
      ...hopByHop,
      ...protectedNames,
      'x-a',
      'x-b',
      'cookie',
      'app',
      'x-app-name',
    ),
  ),
  fc.stringMatching(/^[A-Za-z0-9-]{1,10}$/),
)
const latin1 = fc.stringMatching(/^[\x20-\x7e\x80-\xff]{0,12}$/)
const connectionLine = fc
  .array(anyName, { maxLength: 4 })
  .map((names) => names.join(' ,\t'))
const line = fc.oneof(
  fc.tuple(anyName, latin1),
  fc.tuple(fc.mixedCase(fc.constant('connection')), connectionLine),
)
const rawHeaders = fc.array(line, { maxLength: 12 }).map((lines) => lines.flat())

/** The same rule, written the slow way. */
function expected(raw: readonly string[]): string[] {
  const lines = raw.flatMap((name, index) =>
    index % 2 === 0 ? [[name, raw[index + 1] ?? ''] as const] : [],
  )
  const named = lines
    .filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) => value.split(',').map((part) => part.trim().toLowerCase()))
  return lines
    .filter(([name]) => {
      const lower = name.toLowerCase()
      if (hopByHop.includes(lower)) return false
      return (
        protectedNames.includes(lower) ||
        lower.startsWith('app-') ||
        !named.includes(lower)
      )
    })
    .flat()
}

describe('end-to-end headers', () => {
  test('are those left, in order, without hop-by-hop and nominated headers', () => {
    fc.assert(
      fc.property(rawHeaders, (raw) => {
        expect(endToEndHeaders(raw, keepsAll)).toEqual(expected(raw))
      }),
      { numRuns: 500 },
    )
  })

  test('can be dropped by a predicate, which gets their names in lower case', () => {
    const raw = ['X-A', '1', 'Connection', 'X-B', 'X-B', '2', 'TE', 'x', 'HOST', 'h']
    expect(endToEndHeaders(raw, (name) => name === 'host')).toEqual(['X-A', '1'])
  })
})

describe('nominated headers', () => {
  test.each([
    [['Connection', 'Keep-Alive, CLOSE ,,'], undefined],
    [['Connection', 'x-a'], ['x-a']],
    [
      ['connection', ' X-A ,x-b', 'CONNECTION', 'x-c'],
      ['x-a', 'x-b', 'x-c'],
    ],
    [['Connections', 'x-a', 'X', 'connection'], undefined],
    [['Connection', 'Host, Content-Length, App-Name, VIA, x-a'], ['x-a']],
  ])('in %j are %j', (raw, names) =>
    expect(nominatedIn(headerLines(raw, 'connection'))).toEqual(names && new Set(names)),
  )
})

describe('Via names us', () => {
  const isLoop = (via: string) => {
    try {
      refuseLoop(via)
      return false
    } catch {
      return true
    }
  }

  test.each([
    [' 1.0\tquotegate', true],
    ['HTTP/1.1 QuoteGate', true],
    ['1.1 a, 2 quotegate (x)', true],
    ['1.1 quotegate2', false],
    ['1.1 my-quotegate', false],
    ['quotegate', false],
    ['1.1 a (quotegate)', false],
    ['1.1 quotegate.example', false],
  ])('in %j: %s', (value, does) => expect(isLoop(value)).toBe(does))

  test('on any of its lines', () => {
    expect(
      isLoop(headerLines(['Via', '1.1 a', 'X-Via', '1.1 quotegate'], 'via') ?? ''),
    ).toBe(false)
    expect(
      isLoop(headerLines(['Via', '1.1 a', 'via', '1.1 quotegate'], 'via') ?? ''),
    ).toBe(true)
  })
})
