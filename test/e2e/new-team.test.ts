import { describe, expect, test } from 'vitest'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'
import { closing, everyWay, setStage, valuesOf } from './support.ts'

const quoteTarget = '/v3/pairs/ETH_USDC/quotes?amount=0.1'

/** Story 8: a new team tries the gateway without a setting, then points its staging at it and forgets one. */
describe.each(everyWay)('the new team, through %s,', (_way, open) => {
  test('gets a quote without any setting, from a sandbox that says it is one', async () => {
    const gateway = closing(await startGateway())
    const { status, body, headers } = await open(gateway)('get', quoteTarget).set('App-Name', 'demo')
    expect([status, headers.sandbox]).toEqual([200, 'quotegate'])
    expect(body).toMatchObject({ pairId: 'ETH_USDC', fromAmount: { assetId: 'ETH', value: '0.1' } })
  })

  test("changes the lifetime of quotes and causes errors at the sandbox's own port", async () => {
    const gateway = closing(await startGateway())
    const setFaults = (faults: object) =>
      fetch(`${gateway.sandboxUrl}/sandbox/faults`, { method: 'PUT', body: JSON.stringify(faults) })
    const ask = open(gateway)
    await setFaults({ quoteLifetimeMs: 3_600_000 })
    const { body } = await ask('get', quoteTarget).set('App-Name', 'demo')
    expect(body.expiry).toBeGreaterThan(Date.now() + 3_000_000)
    await setFaults({ errorRate: 1 })
    expect((await ask('get', '/v3/pairs')).status).toBe(503)
  })

  test('forgets TRUST_PROXY: the log says so once, and a metric shows it', async () => {
    const log = await keptLog('info')
    const { sandbox, gateway } = await setStage({}, { overrides: { logger: log.logger } })
    const ask = open(gateway)
    for (const user of ['198.51.100.7', '198.51.100.8', '198.51.100.9']) {
      const { status } = await ask('get', quoteTarget).set('App-Name', 'demo').set('Forwarded', `for=${user}`)
      expect(status).toBe(200)
    }
    for (const { rawHeaders } of sandbox.requests) {
      expect(valuesOf(rawHeaders, 'Forwarded')).toEqual(['for=127.0.0.1'])
    }
    expect(log.lines(levels.warn).map(({ msg }) => msg)).toEqual([
      '127.0.0.1 sent Forwarded but is not in TRUST_PROXY: the provider sees 127.0.0.1 for all its users. If it is your proxy, add it to TRUST_PROXY',
    ])
    const ignored = 'quotegate_client_address_headers_ignored_total{reason="untrusted-header"} 3'
    expect(await gateway.metrics()).toContain(ignored)
  })

  test('sets TRUST_PROXY and forgets CLIENT_IP_HEADER: the log says so at the start and with the first user', async () => {
    const log = await keptLog('info')
    const { sandbox, gateway } = await setStage(
      { TRUST_PROXY: 'loopback' },
      { overrides: { logger: log.logger } },
    )
    // A user in a restricted place, who looks like the proxy to the provider.
    for (const user of ['203.0.113.7', '203.0.113.8']) {
      const request = open(gateway)('get', quoteTarget).set('App-Name', 'demo').set('X-Forwarded-For', user)
      expect((await request).status).toBe(200)
    }
    for (const { rawHeaders } of sandbox.requests)
      expect(valuesOf(rawHeaders, 'Forwarded')).toEqual(['for=127.0.0.1'])
    expect(log.lines(levels.warn).map(({ msg }) => msg)).toEqual([
      expect.stringMatching(/^TRUST_PROXY is set and CLIENT_IP_HEADER is not: /),
      expect.stringMatching(
        /^127\.0\.0\.1 is trusted and sends X-Forwarded-For, but CLIENT_IP_HEADER is forwarded: /,
      ),
    ])
    const ignored = 'quotegate_client_address_headers_ignored_total{reason="other-header"} 2'
    expect(await gateway.metrics()).toContain(ignored)
  })

  test('sets both, and the log says nothing more', async () => {
    const log = await keptLog('info')
    const settings = { TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'forwarded' }
    const { sandbox, gateway } = await setStage(settings, { overrides: { logger: log.logger } })
    await open(gateway)('get', quoteTarget).set('App-Name', 'demo').set('Forwarded', 'for=198.51.100.7')
    expect(valuesOf(sandbox.requests[0]?.rawHeaders, 'Forwarded')).toEqual(['for=198.51.100.7'])
    expect(log.lines(levels.warn)).toEqual([])
  })
})
