import { describe, expect, test } from 'vitest'
import { rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { everyWay, setStage } from './support.ts'

/** Story 11: the attacker has the port and an hour. What it writes: test/regression and test/metrics. */
describe('the attacker', () => {
  test('does not reach the operations listener or the sandbox', async () => {
    const { gateway, sandbox } = await setStage()
    const ofOperators = [
      '/',
      '/status',
      '/runbook',
      '/main.js',
      '/metrics',
      '/healthz',
      '/readyz',
    ]
    for (const target of [...ofOperators, '/sandbox/faults', '//metrics', '/METRICS'])
      expect(
        (await rawExchange(gateway.url, `GET ${target} HTTP/1.1\r\nHost: g\r\n\r\n`))
          .status,
      ).toBe(404)
    expect(sandbox.requests).toEqual([])
  })
})

describe.each(everyWay)(
  'the attacker from a restricted place, through %s,',
  (_way, open) => {
    // Every peer on loopback is in the restricted place, the attacker too: its headers are not trusted.
    const restricted = { sandbox: { faults: { restrictedPlace: '127.0.0.0/8' } } }

    test.each([
      {
        Forwarded: 'for=198.51.100.1, for="[2001:db8::1]"',
        'X-Forwarded-For': '198.51.100.1',
      },
      {
        'X-Real-IP': '198.51.100.1',
        'CF-Connecting-IP': '198.51.100.1',
        'True-Client-IP': '198.51.100.1',
      },
      { Forwarded: 'for=198.51.100.1', Connection: 'Forwarded, X-Forwarded-For' },
    ])('is refused by its real address, whatever it claims: %j', async (claims) => {
      const { sandbox, gateway } = await setStage({}, restricted)
      const answer = await open(gateway)('get', '/v3/pairs/ETH_USDC').set(claims)
      expect([answer.status, answer.body]).toEqual([
        403,
        { code: 'RESTRICTED_GEOLOCATION' },
      ])
      const { rawHeaders = [] } = sandbox.requests[0] ?? {}
      expect(valuesOf(rawHeaders, 'forwarded')).toEqual(['for=127.0.0.1'])
      expect(rawHeaders.join('\n')).not.toMatch(/198\.51|2001:db8/)
    })
  },
)
