import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { factsOf, isSettingName } from '../../src/config/settings.ts'
import { createAreaReader } from '../../src/http/area.ts'
import { problemTypes } from '../../src/http/problem.ts'
import { areas } from '../../src/http/target.ts'
import {
  type UpstreamFacts,
  upstreamNames,
  upstreamTable,
} from '../../src/http/upstreams.ts'
import { openApi } from '../openapi/support.ts'
import { freshMetrics } from '../support/observing/fresh-metrics.ts'

// A further upstream is a row of the table: everything below follows from it, or one of these fails.
describe.each(upstreamNames)('the upstream %s', (name) => {
  const { baseUrl, missing, title }: UpstreamFacts = upstreamTable[name]
  const { upstreams } = loadConfig({ SWAP_BASE_URL: 'https://swap.example' }).config

  test('has a setting for its base URL, which is masked and explained', () => {
    expect(isSettingName(baseUrl.setting)).toBe(true)
    if (isSettingName(baseUrl.setting))
      expect(factsOf(baseUrl.setting)).toMatchObject({
        secret: 'in-url',
        meaning: expect.any(String),
      })
    const url = 'https://further.example'
    const given = { SWAP_BASE_URL: 'https://swap.example', [baseUrl.setting]: url }
    expect(loadConfig(given).config.upstreams[name].baseUrl).toBe(url)
  })

  test('has areas of its own, where its paths go', () => {
    const read = createAreaReader({
      swap: upstreams.swap.paths,
      payments: upstreams.payments.paths,
      webhooks: upstreams.webhooks.paths,
    })
    expect(areas).toContain(name)
    for (const prefix of upstreams[name].paths)
      expect(read(`${prefix}/a`)).toMatchObject({ area: name, upstream: name })
  })

  test('has series in the metrics', async () => {
    const page = await freshMetrics().render()
    expect(page).toContain(
      `quotegate_breaker_state{upstream="${name}",breaker="connections",state="closed"} 1`,
    )
    expect(page).toContain(
      `quotegate_upstream_requests_total{upstream="${name}",outcome="answered"} 0`,
    )
    expect(page).toContain(
      `quotegate_http_request_duration_seconds_count{route="${name}"} 0`,
    )
  })

  test('is in the OpenAPI document, with the problem that is answered while it has no base URL', () => {
    const operations = Object.values(openApi.paths).flatMap((path) => Object.values(path))
    const own = operations.filter(({ tags }) => tags?.includes(title))
    expect(own.length).toBeGreaterThan(0)
    expect(problemTypes).toHaveProperty(missing.slug)
  })
})
