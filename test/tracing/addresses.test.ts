import { expect, test } from 'vitest'
import { ask } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'
import { startCollector, tracedTo } from '../support/observing/collector.ts'

test.each(['/v3/orders', '/v3//Orders', '/v3/orders/float'])(
  'reading %s shows no query in a trace, because it names addresses',
  async (path) => {
    const collector = await startCollector()
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url, tracedTo(collector))
    await ask(gateway.url, { path: `${path}?toAddress=0xsecret` })
    await collector.received(3)
    expect(upstream.requests[0]?.target).toBe(`${path}?toAddress=0xsecret`)
    expect(JSON.stringify(collector.batches)).not.toContain('0xsecret')
    const call = collector.spans().find(({ kind }) => kind === 'client')
    expect(call?.attributes['url.full']).toBe(upstream.url + path)
  },
)
