import { describe, expect, test } from 'vitest'
import { rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { everyWay, setStage } from './support.ts'

/** Story 11: the attacker has the port and an hour. What it writes into a head or a body: test/regression. */
describe('the attacker', () => {
  test('does not reach the operations listener or the sandbox', async () => {
    const { gateway, sandbox } = await setStage()
    for (const target of ['/metrics', '/healthz', '/readyz', '/sandbox/faults', '//metrics', '/METRICS'])
      expect((await rawExchange(gateway.url, `GET ${target} HTTP/1.1\r\nHost: g\r\n\r\n`)).status).toBe(404)
    expect(sandbox.requests).toEqual([])
  })

  test('cannot lengthen the metrics by random pairs, paths, methods and names', async () => {
    const { gateway } = await setStage()
    const lengthOfMetrics = async () => (await gateway.metrics()).match(/^quotegate_/gm)?.length
    const ask = async (path: string, init: RequestInit) => (await fetch(gateway.url + path, init)).text()
    await ask('/v3/pairs/ETH_USDC/quotes?amount=0.1', { headers: { 'App-Name': 'neighbour' } })
    await ask('/checkouts', { headers: { Authorization: 'Bearer any' } })
    const before = await lengthOfMetrics()
    for (let count = 0; count < 50; count++) {
      const random = Math.random().toString(36).slice(2)
      const headers = { 'App-Name': random, 'X-Request-Id': random, Forwarded: `for=${random}` }
      for (const path of [`/v3/pairs/${random}/quotes?amount=${count}`, `/${random}`, `/checkouts/${random}`])
        await ask(path, { method: count % 2 ? 'GET' : 'PROPFIND', headers })
    }
    expect(await lengthOfMetrics()).toBe(before)
  })
})

describe.each(everyWay)('the attacker from a restricted place, through %s,', (_way, open) => {
  // Every client on loopback is in the restricted place, the attacker too: its headers are not trusted.
  const restricted = { sandbox: { faults: { restrictedPlace: '127.0.0.0/8' } } }

  test.each([
    { Forwarded: 'for=198.51.100.1, for="[2001:db8::1]"', 'X-Forwarded-For': '198.51.100.1' },
    { 'X-Real-IP': '198.51.100.1', 'CF-Connecting-IP': '198.51.100.1', 'True-Client-IP': '198.51.100.1' },
    { Forwarded: 'for=198.51.100.1', Connection: 'Forwarded, X-Forwarded-For' },
  ])('is refused by its real address, whatever it claims: %j', async (claims) => {
    const { sandbox, gateway } = await setStage({}, restricted)
    const answer = await open(gateway)('get', '/v3/pairs/ETH_USDC').set(claims)
    expect([answer.status, answer.body]).toEqual([403, { code: 'RESTRICTED_GEOLOCATION' }])
    const { rawHeaders = [] } = sandbox.requests[0] ?? {}
    expect(valuesOf(rawHeaders, 'forwarded')).toEqual(['for=127.0.0.1'])
    expect(rawHeaders.join('\n')).not.toMatch(/198\.51|2001:db8/)
  })

  test('cannot have a header that names it removed by listing that header in Connection', async () => {
    const { sandbox, gateway } = await setStage({}, restricted)
    const Connection = 'App-Name, Authorization, User-Agent, Via, Host'
    await open(gateway)('get', '/v3/pairs').set({ 'App-Name': 'm', Authorization: 'Bearer m', Connection })
    for (const name of ['app-name', 'authorization', 'via', 'host'])
      expect(valuesOf(sandbox.requests[0]?.rawHeaders ?? [], name)).toHaveLength(1)
  })
})
