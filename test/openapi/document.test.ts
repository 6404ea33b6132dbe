import type { Router } from 'express'
import { describe, expect, test } from 'vitest'
import { openApiJson } from '../../scripts/openapi/document.ts'
import { systemClock } from '../../src/clock.ts'
import { fixedDefault } from '../../src/config/settings.ts'
import { problemTypes } from '../../src/http/problem.ts'
import { version } from '../../src/process/package-info.ts'
import { readQuote } from '../../src/quotes/quote.ts'
import { FaultSettings } from '../../src/sandbox/faults.ts'
import { Payments } from '../../src/sandbox/payments.ts'
import { createSwapRouter } from '../../src/sandbox/swap.ts'
import { documentText, faultsOf, onTraffic, openApi, operations, resolve, slugsOf } from './support.ts'

/** As `GET /v3/pairs/{pairId}`. */
function routesOf(router: Router, prefix = ''): string[] {
  return router.stack.flatMap(({ route }) => {
    if (route === undefined) return []
    const path = prefix + route.path.replaceAll(/:(\w+)/g, '{$1}')
    return route.stack.map(({ method }) => `${method.toUpperCase()} ${path}`)
  })
}

describe('docs/openapi.json', () => {
  test('matches the schemas and the table of problems (if not: npm run docs)', () => {
    expect(documentText === openApiJson, 'docs/openapi.json is out of date: run `npm run docs`').toBe(true)
  })

  test('names its version and the default addresses of the listeners', () => {
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

  test('has every problem that exists at some path, and no other', () => {
    const documented = slugsOf(onTraffic.flatMap(({ responses }) => Object.values(responses)))
    expect([...documented].sort()).toEqual(Object.keys(problemTypes).sort())
  })

  test('says for every operation which key it needs, if any', () => {
    const without = operations.filter(({ operation }) => !Array.isArray(operation.security))
    expect(without.map(({ operation }) => operation.operationId)).toEqual([])
  })

  test('has every operation of the sandbox, those that only pass by their names in one entry', () => {
    const sources = { clock: systemClock, elapsedClock: systemClock, faults: new FaultSettings({}) }
    const swap = createSwapRouter({}, sources)
    const ofSandbox = [...routesOf(swap, '/v3'), ...routesOf(new Payments(sources).router)]
    const described = onTraffic
      .filter(({ path, method }) => path !== '/{path}' && !['HEAD', 'TRACE'].includes(method))
      .map(({ method, path }) => `${method} ${path}`)
    const entry = onTraffic.find(({ path }) => path === '/{path}')?.operation.description ?? ''
    const named = [...entry.matchAll(/^- `(.+)`$/gm)].map(([, route = '']) => route)
    expect([...described, ...named].sort()).toEqual([...new Set(ofSandbox)].sort())
    expect(named.length).toBeGreaterThan(20)
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
    const asked = (amount: string) => readQuote(Buffer.from(JSON.stringify(example)), amount).reason
    expect([asked('0.1'), asked('0.2')]).toEqual([undefined, 'other-amount'])
  })

  test('accepts unknown members, because the bytes are relayed as they are', () => {
    expect(
      faults({ ...example, slippage: 0.5, toAmount: { assetId: 'USDC', value: '1', net: '0.9' } }),
    ).toEqual([])
  })

  test.each(['id', 'pairId', 'fromAmount', 'toAmount', 'expiry'])('refuses one without %s', (name) => {
    const { [name]: _left, ...rest } = example
    expect(faults(rest)).toHaveLength(1)
    expect(readQuote(Buffer.from(JSON.stringify(rest))).reason).toBeDefined()
  })
})
