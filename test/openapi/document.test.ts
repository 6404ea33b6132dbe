import { Validator } from '@seriousme/openapi-schema-validator'
import { describe, expect, test } from 'vitest'
import { openApiJson } from '../../scripts/openapi/document.ts'
import { fixedDefault } from '../../src/config/settings.ts'
import { problemTypes } from '../../src/http/problem.ts'
import { version } from '../../src/process/package-info.ts'
import { readQuote } from '../../src/quotes/quote.ts'
import { documentText, faultsOf, onTraffic, openApi, operations, resolve, slugsOf } from './support.ts'

describe('docs/openapi.json', () => {
  test('is what the schemas and the table of problems make (if not: npm run docs)', () => {
    expect(documentText === openApiJson, 'docs/openapi.json is out of date: run `npm run docs`').toBe(true)
  })

  test('is valid by the schema of OpenAPI 3.1', async () => {
    const result = await new Validator().validate(JSON.parse(documentText))
    expect(result.errors ?? []).toEqual([])
    expect(result.valid).toBe(true)
  })

  test('says of which version it is, and where the listeners are by default', () => {
    expect(openApi.info.version).toBe(version)
    const ports = [...documentText.matchAll(/"port": \{\s*"default": "(\d+)"/g)].map(([, port]) => port)
    expect(new Set(ports)).toEqual(new Set([fixedDefault('PORT'), fixedDefault('ADMIN_PORT')]))
    expect(openApi.servers[0]?.variables.host?.default).toBe(fixedDefault('HOST'))
    expect(openApi.servers[0]?.variables.port?.default).toBe(fixedDefault('PORT'))
  })

  test('has schemas that are valid by JSON Schema 2020-12', () => {
    for (const name of Object.keys(openApi.components.schemas ?? {})) {
      expect(() => faultsOf({ $ref: `#/components/schemas/${name}` }, {})).not.toThrow()
    }
  })

  test('has an operation id once', () => {
    const ids = operations.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('has every problem that there is at some path, and none that is not', () => {
    const documented = slugsOf(onTraffic.flatMap(({ responses }) => Object.values(responses)))
    expect([...documented].sort()).toEqual(Object.keys(problemTypes).sort())
  })

  test('uses every component', () => {
    const unused = Object.entries(openApi.components)
      .filter(([group]) => group !== 'securitySchemes')
      .flatMap(([group, named]) => Object.keys(named).map((name) => `#/components/${group}/${name}`))
      .filter((reference) => !documentText.includes(`"${reference}"`))
    expect(unused).toEqual([])
  })
})

describe('the schema of a quote', () => {
  const { examples } = resolve<{ examples: Record<string, unknown>[] }>({
    $ref: '#/components/schemas/Quote',
  })
  const [example = {}] = examples
  const faults = (quote: object) => faultsOf({ $ref: '#/components/schemas/Quote' }, quote)

  test('accepts its own example, which the gateway reads too', () => {
    expect(faults(example)).toEqual([])
    expect(readQuote(Buffer.from(JSON.stringify(example)), 0).reason).toBe('expiry-too-far')
    expect(readQuote(Buffer.from(JSON.stringify(example)), Number(example.expiry) - 1).reason).toBeUndefined()
  })

  test('accepts members that nobody has heard of, because the bytes are relayed as they are', () => {
    expect(
      faults({ ...example, slippage: 0.5, toAmount: { assetId: 'USDC', value: '1', net: '0.9' } }),
    ).toEqual([])
  })

  test.each(['id', 'pairId', 'fromAmount', 'toAmount', 'expiry'])('refuses one without %s', (name) => {
    const { [name]: _left, ...rest } = example
    expect(faults(rest)).toHaveLength(1)
    expect(readQuote(Buffer.from(JSON.stringify(rest)), Number(example.expiry) - 1).reason).toBeDefined()
  })
})
