import { expect, it, onTestFinished } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { ask, counted, keepAliveAgent, lookups } from '../support/clients/quotes.ts'
import { gatewayTo } from '../support/gateways/between.ts'

const users = 2_000
const countries = ['DE', 'FR', 'BR', 'JP', 'US']
const latencyMs = 300

it('2,000 users from five countries open one pair within a second: the provider sees one call a country', async () => {
  const sandbox = await startSandbox({ faults: { latencyMs }, quoteLifetimeMs: 30_000 })
  onTestFinished(() => sandbox.close())
  const gateway = await gatewayTo(sandbox.url, {
    QUOTE_PARTITION: 'header',
    QUOTE_PARTITION_HEADER: 'cf-ipcountry',
    TRUST_PROXY: 'loopback',
    QUOTE_REFRESH_AHEAD_MS: '5000',
  })
  const agent = keepAliveAgent(500)
  const user = (index: number) =>
    ask(gateway.url, {
      headers: [
        ...['App-Name', 'wallet', 'Forwarded', `for=198.51.${100 + (index >> 8)}.${index & 255}`],
        ...['CF-IPCountry', countries[index % countries.length] ?? ''],
      ],
      agent,
    })
  const answers = await Promise.all(Array.from({ length: users }, (_, index) => user(index)))

  const quotes = new Map<string, Set<string>>()
  for (const [index, { status, body, sentAtMs }] of answers.entries()) {
    expect(status).toBe(200)
    const country = countries[index % countries.length] ?? ''
    quotes.set(country, (quotes.get(country) ?? new Set()).add(body))
    expect(JSON.parse(body).expiry).toBeGreaterThan(sentAtMs)
  }
  for (const bodies of quotes.values()) expect(bodies.size).toBe(1)
  expect(new Set([...quotes.values()].flatMap((bodies) => [...bodies])).size).toBe(countries.length)
  expect(sandbox.requests).toHaveLength(countries.length)
  for (const { rawHeaders } of sandbox.requests)
    expect(rawHeaders.join('\n').toLowerCase()).not.toContain('cf-ipcountry')

  // No client waited for a second round: each miss was waiting for the one call of its country.
  const [hits, collapsed, misses] = await Promise.all(
    ['hit', 'collapsed', 'miss'].map((result) => counted(gateway, lookups(result))),
  )
  expect(misses).toBe(countries.length)
  expect((hits ?? 0) + (collapsed ?? 0)).toBe(users - countries.length)

  const late = await Promise.all(Array.from({ length: 50 }, (_, index) => user(index)))
  for (const { headers } of late) expect(headers['cache-status']).toMatch(/^quotegate; hit/)
  expect(sandbox.requests).toHaveLength(countries.length)
})
