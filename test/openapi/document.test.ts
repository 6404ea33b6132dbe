import { fileURLToPath } from 'node:url'
import { createConfig, lint } from '@redocly/openapi-core'
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
import {
  documentText,
  faultsOf,
  onTraffic,
  openApi,
  operations,
  resolve,
  slugsOf,
} from './support.ts'

/** As `GET /v3/pairs/{pairId}`. */
function routesOf(router: Router, prefix = ''): string[] {
  return router.stack.flatMap(({ route }) => {
    if (route === undefined) return []
    const path = prefix + route.path.replaceAll(/:(\w+)/g, '{$1}')
    return route.stack.map(({ method }) => `${method.toUpperCase()} ${path}`)
  })
}

describe('docs/openapi.json', () => {
  test('matches the schemas and the table of problems (if not: npm run docs)', () =>
    expect(
      documentText === openApiJson,
      'docs/openapi.json is out of date: run `npm run docs`',
    ).toBe(true))

  test("is valid by OpenAPI 3.1, and has no error under redocly's recommended rules", async () => {
    const ref = fileURLToPath(new URL('../../docs/openapi.json', import.meta.url))
    const problems = await lint({
      ref,
      config: await createConfig({ extends: ['recommended'] }),
    })
    expect(problems.filter(({ severity }) => severity === 'error')).toEqual([])
    // It did look: some of its warnings are about paths that answer nothing but errors.
    expect(problems.map(({ ruleId }) => ruleId)).toContain('operation-2xx-response')
  })

  test('names its version and the default addresses of the listeners', () => {
    expect(openApi.info.version).toBe(version)
    const urls = [...documentText.matchAll(/"url": "(.+)"/g)].map(([, url]) => url)
    const atPort = (port: unknown) => `http://${fixedDefault('HOST')}:${port}`
    expect(new Set(urls)).toEqual(
      new Set([atPort(fixedDefault('PORT')), atPort(fixedDefault('ADMIN_PORT'))]),
    )
  })

  test('has schemas that are valid by JSON Schema 2020-12', () => {
    for (const name of Object.keys(openApi.components.schemas ?? {}))
      expect(() => faultsOf({ $ref: `#/components/schemas/${name}` }, {})).not.toThrow()
  })

  test('has every problem that exists at some path, and no other', () => {
    const documented = slugsOf(
      onTraffic.flatMap(({ responses }) => Object.values(responses)),
    )
    expect([...documented].sort()).toEqual(Object.keys(problemTypes).sort())
  })

  test('says for every operation which key it needs, if any', () => {
    const without = operations.filter(
      ({ operation }) => !Array.isArray(operation.security),
    )
    expect(without.map(({ operation }) => operation.operationId)).toEqual([])
  })

  test('has every operation of the sandbox, those that only pass by their names in one entry', () => {
    const sources = {
      clock: systemClock,
      elapsedClock: systemClock,
      faults: new FaultSettings(),
    }
    const swap = createSwapRouter({}, sources)
    const ofSandbox = [
      ...routesOf(swap, '/v3'),
      ...routesOf(new Payments(sources).router),
    ]
    const described = onTraffic
      .filter(
        ({ path, method }) => path !== '/{path}' && !['HEAD', 'TRACE'].includes(method),
      )
      .map(({ method, path }) => `${method} ${path}`)
    const entry =
      onTraffic.find(({ path }) => path === '/{path}')?.operation.description ?? ''
    const named = [...entry.matchAll(/^- `(.+)`$/gm)].map(([, route = '']) => route)
    expect([...described, ...named].sort()).toEqual([...new Set(ofSandbox)].sort())
  })
})

describe('the schema of a quote', () => {
  const quoteSchema = { $ref: '#/components/schemas/Quote' }
  const [example = {}] = resolve<{ examples: Record<string, unknown>[] }>(
    quoteSchema,
  ).examples
  const faults = (quote: object) => faultsOf(quoteSchema, quote)
  /** Why it is not read. */
  const reasonOf = (quote: object, amount?: string) => {
    const read = readQuote(Buffer.from(JSON.stringify(quote)), amount)
    return typeof read === 'string' ? read : undefined
  }

  test('accepts its own example, which the gateway reads too, also with members that are not known', () => {
    expect([reasonOf(example, '0.1'), reasonOf(example, '0.2')]).toEqual([
      undefined,
      'other-amount',
    ])
    const toAmount = { assetId: 'USDC', value: '1', net: '0.9' }
    for (const quote of [example, { ...example, slippage: 0.5, toAmount }])
      expect(faults(quote)).toEqual([])
  })

  test.each(['id', 'pairId', 'fromAmount', 'toAmount', 'expiry'])(
    'refuses one without %s',
    (name) => {
      const { [name]: _left, ...rest } = example
      expect(faults(rest)).toHaveLength(1)
      expect(reasonOf(rest)).toBeDefined()
    },
  )
})
