import { createRequire } from 'node:module'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createClientAddress } from '../../src/client/client-address.ts'
import { nodeAddress, parseForwarded } from '../../src/client/forwarded.ts'
import { formatForwarded } from '../../src/http/forwarded.ts'
import { normalizeAddress } from '../../src/http/ip-address.ts'

/** Without types of its own; throws on what it takes for malformed. */
const parseOracle = createRequire(import.meta.url)('forwarded-parse') as (value: string) => { for?: string }[]

const latin1 = fc.integer({ min: 0x20, max: 0xff }).filter((code) => code !== 0x7f)
const anyText = fc.array(latin1, { maxLength: 12 }).map((codes) => String.fromCharCode(...codes))
const tokenText = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}$/)
const blanks = fc.stringMatching(/^[ \t]{0,2}$/)

/** One parameter: what it means, and one of the ways to write that. */
interface Written {
  name: string
  value: string
  text: string
}

function written(name: string): fc.Arbitrary<Written> {
  const spelledName = fc.mixedCase(fc.constant(name))
  const asToken = fc
    .tuple(spelledName, tokenText)
    .map(([spelled, value]) => ({ name, value, text: `${spelled}=${value}` }))
  const asQuoted = fc
    .tuple(spelledName, anyText, fc.infiniteStream(fc.boolean()))
    .map(([spelled, value, escapes]) => ({ name, value, text: `${spelled}="${quote(value, escapes)}"` }))
  return fc.oneof(asToken, asQuoted)
}

function quote(value: string, escapes: Iterator<boolean>): string {
  return value.replace(/./gs, (character) =>
    character === '"' || character === '\\' || escapes.next().value === true ? `\\${character}` : character,
  )
}

const element = fc
  .uniqueArray(fc.constantFrom('for', 'by', 'host', 'proto', 'secret', 'x-1', '__proto__'), {
    minLength: 1,
    maxLength: 7,
  })
  .chain((names) => fc.tuple(...names.map(written)))

const header = fc
  .array(fc.tuple(element, blanks, blanks), { minLength: 1, maxLength: 6 })
  .map((elements) => ({
    value: elements
      .map(([parameters, before, after], index) => {
        const text = parameters.map((parameter) => parameter.text).join(';')
        return `${index === 0 ? '' : before}${text}${index === elements.length - 1 ? '' : after}`
      })
      .join(','),
    nodes: elements.map(([parameters]) => parameters.find(({ name }) => name === 'for')?.value),
  }))

test('a valid header is read as what was written, however it was quoted, cased and spaced, and as forwarded-parse reads it', () => {
  fc.assert(
    fc.property(header, blanks, fc.nat(3), ({ value, nodes }, blank, empties) => {
      expect(parseForwarded(value)).toEqual(nodes)
      expect(parseOracle(value).map((parsed) => parsed.for)).toEqual(nodes)
      // Which forwarded-parse refuses: empty elements, empty pairs and outer blanks.
      const padding = `,${blank};${blank}`.repeat(empties)
      expect(parseForwarded(`${blank}${padding},${value};${blank}${padding}`)).toEqual(nodes)
    }),
  )
})

test('a header takes processor time in proportion to its length, whatever is repeated in it', () => {
  const opening = fc.constantFrom('', 'for="', 'for=', 'for', 'for="\\', 'for="[', ',')
  const frequent = ['\\"', '\\\\', 'for=1.2.3.4,', 'for="a",', 'for="\\a",']
  const unit = fc
    .array(fc.constantFrom(...'"\\,;= a:[]', ...frequent), { minLength: 1, maxLength: 5 })
    .map((parts) => parts.join(''))
  const read = createClientAddress({ trustProxy: ['0.0.0.0/0', '::/0'], ipHeader: 'forwarded' })
  const readList = createClientAddress({ trustProxy: ['0.0.0.0/0', '::/0'], ipHeader: 'x-forwarded-for' })
  fc.assert(
    fc.property(opening, unit, (start, repeated) => {
      // Sixteen times what Node lets in: anything quadratic takes minutes here.
      const value = start + repeated.repeat(Math.ceil(262_144 / repeated.length))
      const before = process.cpuUsage()
      read('10.0.0.1', ['Forwarded', value])
      readList('10.0.0.1', ['X-Forwarded-For', value])
      nodeAddress(value)
      expect(process.cpuUsage(before).user).toBeLessThan(1_500_000)
    }),
    { numRuns: 40 },
  )
})

test('an address survives every way to write a node, and being formatted', () => {
  const named = fc.oneof(fc.nat(65535).map(String), fc.stringMatching(/^_[A-Za-z0-9._-]{1,8}$/))
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), fc.option(named), (text, port) => {
      const address = normalizeAddress(text) ?? ''
      const host = address.includes(':') ? `[${address}]` : address
      const node = port === null ? host : `${host}:${port}`
      expect(nodeAddress(node)).toBe(address)
      expect(parseForwarded(`for="${node}"`)).toEqual([node])
      expect(parseForwarded(`for=${node}`)).toEqual([node])
      expect(parseForwarded(formatForwarded(address))).toEqual([host])
    }),
  )
})
