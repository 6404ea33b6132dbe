import { describe, expect, test } from 'vitest'
import { valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayWith } from '../support/gateways/between.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'
import { everyWay, setStage } from './support.ts'

const quoteTarget = '/v3/pairs/ETH_USDC/quotes?amount=0.1'

/** Story 8: a new team tries the gateway without a setting, then points its staging at it and forgets one. */
describe.each(everyWay)('the new team, through %s,', (_way, open) => {
  test('gets a quote from a sandbox without any setting, changes its quotes and causes errors', async () => {
    const gateway = await gatewayWith()
    const ask = open(gateway)
    const { status, body, headers } = await ask('get', quoteTarget).set(
      'App-Name',
      'demo',
    )
    expect([status, headers.sandbox]).toEqual([200, 'quotegate'])
    expect(body).toMatchObject({
      pairId: 'ETH_USDC',
      fromAmount: { assetId: 'ETH', value: '0.1' },
    })

    const setFaults = (faults: object) =>
      fetch(`${gateway.sandboxUrl}/sandbox/faults`, {
        method: 'PUT',
        body: JSON.stringify(faults),
      })
    await setFaults({ quoteLifetimeMs: 3_600_000 })
    const { body: long } = await ask('get', '/v3/pairs/ETH_USDC/quotes?amount=0.2').set(
      'App-Name',
      'demo',
    )
    expect(long.expiry).toBeGreaterThan(Date.now() + 3_000_000)
    await setFaults({ errorRate: 1 })
    expect((await ask('get', '/v3/pairs')).status).toBe(503)
  })

  const ofStart = /^TRUST_PROXY is set and CLIENT_IP_HEADER is not: /
  const untrusted =
    /^127\.0\.0\.1 sent Forwarded but is not in TRUST_PROXY: the provider sees 127\.0\.0\.1 for all/
  const otherHeader =
    /^127\.0\.0\.1 is trusted and sends X-Forwarded-For, but CLIENT_IP_HEADER is forwarded: /

  test.each([
    ['forgets TRUST_PROXY', {}, 'Forwarded', 'untrusted-header', [untrusted]],
    [
      'forgets CLIENT_IP_HEADER',
      { TRUST_PROXY: 'loopback' },
      'X-Forwarded-For',
      'other-header',
      [ofStart, otherHeader],
    ],
  ])(
    '%s: the log says so once, and a metric shows it',
    async (_what, settings, header, reason, warnings) => {
      const log = await keptLog('info')
      const { sandbox, gateway } = await setStage(settings, {
        overrides: { logger: log.logger },
      })
      for (const user of ['203.0.113.7', '203.0.113.8', '203.0.113.9']) {
        const value = header === 'Forwarded' ? `for=${user}` : user
        // A user in a restricted place looks like the proxy to the provider.
        expect(
          (
            await open(gateway)('get', quoteTarget).set({
              'App-Name': 'demo',
              [header]: value,
            })
          ).status,
        ).toBe(200)
      }
      for (const { rawHeaders } of sandbox.requests)
        expect(valuesOf(rawHeaders, 'forwarded')).toEqual(['for=127.0.0.1'])
      const said = log.lines(levels.warn).map(({ msg }) => msg)
      expect(said).toEqual(warnings.map((warning) => expect.stringMatching(warning)))
      const ignored = `quotegate_client_address_headers_ignored_total{reason="${reason}"} 3`
      expect(await gateway.metrics()).toContain(ignored)
    },
  )
})
