import { describe, expect, it } from 'vitest'
import { statusOf } from '../operations/support.ts'
import { ask, counted, giveQuote } from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const ignored = (reason: string) =>
  `quotegate_client_address_headers_ignored_total{reason="${reason}"}`

/** A gateway behind a trusted proxy, with what it warns of besides its settings. */
async function behindProxy(settings: Record<string, string | undefined> = {}) {
  const log = await keptLog('info')
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const all = { SWAP_BASE_URL: upstream.url, TRUST_PROXY: 'loopback', ...settings }
  const gateway = await gatewayWith(all, { logger: log.logger })
  const said = log.lines(levels.warn).length
  return {
    gateway,
    upstream,
    warnings: () => log.lines(levels.warn).slice(said),
    asked: (headers: readonly string[], amount = 0.1) =>
      ask(gateway.url, {
        headers: ['App-Name', 'a', ...headers],
        path: `/v3/pairs/ETH_USDC/quotes?amount=${amount}`,
      }),
    forwarded: () => upstream.requests.map(({ headers }) => headers.forwarded),
    status: () => statusOf(gateway),
  }
}

/** Every user looks like the proxy to the provider. That it is named in the log, once: test/e2e/new-team.test.ts. */
describe("a trusted proxy that sends another header with the user's address than CLIENT_IP_HEADER", () => {
  it('is counted with each request, and /status has a sentence of it', async () => {
    const stage = await behindProxy()
    const none = { count: 0, peers: [], headers: [] }
    expect(await stage.status()).toMatchObject({ outages: [], otherHeaderPeers: none })
    for (const user of ['203.0.113.7', '203.0.113.8'])
      await stage.asked(['X-Forwarded-For', user])
    expect(await counted(stage.gateway, ignored('other-header'))).toBe(2)
    await expect
      .poll(async () => (await stage.status()).outages, { timeout: 10_000 })
      .toMatchObject([
        {
          what: 'client-ip-header',
          names: ['127.0.0.1'],
          says: expect.stringContaining(
            'it is forwarded, but 1 trusted peer sent X-Forwarded-For',
          ),
          requests: 2,
        },
      ])
    const one = { count: 1, peers: ['127.0.0.1'], headers: ['X-Forwarded-For'] }
    expect((await stage.status()).otherHeaderPeers).toEqual(one)
  })

  it('and its own in other requests gets its own address where that is missing, and the others are right', async () => {
    const stage = await behindProxy()
    const forwarded = ['Forwarded', 'for=203.0.113.7']
    const listed = ['X-Forwarded-For', '203.0.113.8']
    // The third and the fourth are hits.
    for (const sent of [forwarded, listed, forwarded, [...forwarded, ...listed]])
      await stage.asked(sent)
    expect(stage.forwarded()).toEqual(['for=203.0.113.7', 'for=127.0.0.1'])
    expect(await counted(stage.gateway, ignored('other-header'))).toBe(1)
  })
})

/** So do a backend whose HTTP client sets none, and a CDN in front of the listed proxy. */
describe("a trusted proxy that sends no header with the user's address", () => {
  const place = '/v3/geolocation'

  /** Stages of `behindProxy`, whose proxy sends requests one after the other. */
  async function silentProxy(settings: Record<string, string | undefined> = {}) {
    const stage = await behindProxy(settings)
    const send = async (times: number, path = place, headers: readonly string[] = []) => {
      for (let sent = 0; sent < times; sent += 1)
        await ask(stage.gateway.url, { headers: ['App-Name', 'a', ...headers], path })
    }
    const outages = async () => (await stage.status()).outages
    return { ...stage, send, outages }
  }

  it.each([
    ['X-Forwarded-For', 'X-Forwarded-For: ADDRESS'],
    ['Forwarded', 'Forwarded: for=ADDRESS'],
    ['CF-Connecting-IP', 'Cf-Connecting-Ip: ADDRESS'],
  ])(
    'is named once in the log, and has a sentence, from its twentieth request on: %s',
    async (header, line) => {
      const stage = await silentProxy({ CLIENT_IP_HEADER: header })
      const [name] = line.split(':')
      for (let amount = 1; amount <= 10; amount += 1) await stage.asked([], amount)
      await stage.send(9)
      expect(stage.warnings()).toEqual([])
      expect(await stage.outages()).toEqual([])
      await stage.send(23)
      expect(await counted(stage.gateway, ignored('no-header'))).toBe(42)
      const [warning, ...more] = stage.warnings()
      expect(more).toEqual([])
      expect(warning).toMatchObject({ peer: '127.0.0.1', reason: 'no-header' })
      expect(warning?.msg).toContain(
        `127.0.0.1 is trusted and sends no ${name}: the provider sees 127.0.0.1 for all its users`,
      )
      expect(warning?.msg).toContain(`curl -H '${line}' $GATEWAY/v3/geolocation`)
      expect(warning?.msg).toMatch(
        /See \/runbook#users-look-as-if-they-were-one of the operations listener$/,
      )
      expect(await stage.outages()).toMatchObject([
        {
          what: 'no-client-header',
          isSevere: false,
          names: ['127.0.0.1'],
          howMany: 1,
          says: expect.stringContaining(`1 trusted proxy sends no ${name}: `),
          runbook: expect.stringMatching(/#users-look-as-if-they-were-one$/),
        },
      ])
    },
  )

  it('is not meant by payments, webhooks, other paths and health checks', async () => {
    const { url } = await recordingUpstream()
    const stage = await behindProxy({ PAYMENTS_BASE_URL: url, WEBHOOKS_BASE_URL: url })
    for (const path of ['/checkouts', '/webhooks/a', '/healthz', '/', '/v4/pairs'])
      for (let times = 0; times < 25; times += 1) await ask(stage.gateway.url, { path })
    expect(stage.warnings()).toEqual([])
    expect(await counted(stage.gateway, ignored('no-header'))).toBe(0)
    expect((await stage.status()).outages).toEqual([])
  })

  it('and has named a user before is not meant, however many requests name none', async () => {
    const stage = await silentProxy()
    await stage.send(1, place, ['Forwarded', 'for=203.0.113.7'])
    await stage.send(50)
    expect(await counted(stage.gateway, ignored('no-header'))).toBe(50)
    expect(stage.warnings()).toEqual([])
    expect(await stage.outages()).toEqual([])
  })

  it('is right again from the first user on that it names, whatever it sends afterwards', async () => {
    const stage = await silentProxy()
    await stage.send(30)
    expect(await stage.outages()).toMatchObject([{ what: 'no-client-header' }])
    // `unknown` names no user.
    await stage.send(1, place, ['Forwarded', 'for=unknown'])
    expect(await stage.outages()).toMatchObject([{ what: 'no-client-header' }])
    await stage.send(1, place, ['Forwarded', 'for=203.0.113.7'])
    expect(await stage.outages()).toEqual([])
    await stage.send(50)
    expect(await stage.outages()).toEqual([])
    expect(stage.warnings().map(({ reason }) => reason)).toEqual([
      'no-header',
      'no-client-named',
    ])
  })
})

describe('a trusted proxy whose header names no user', () => {
  it.each([
    ['Forwarded', 'for="', 'malformed-header', 'cannot be read'],
    ['X-Forwarded-For', '203.0.113.7, rubbish', 'malformed-header', 'cannot be read'],
    ['CF-Connecting-IP', '', 'no-client-named', 'names no user'],
  ])(
    'makes its users unknown, shares none of their quotes, is counted, and named once: %s: %s',
    async (name, value, reason, words) => {
      const stage = await behindProxy({ CLIENT_IP_HEADER: name })
      for (let times = 0; times < 2; times += 1) {
        const { headers } = await stage.asked([name, value])
        expect(headers['cache-status']).toBe(
          'quotegate; fwd=bypass; detail=unknown-client',
        )
      }
      expect(stage.forwarded()).toEqual(['for=unknown', 'for=unknown'])
      expect(await counted(stage.gateway, ignored(reason))).toBe(2)
      expect(stage.warnings()).toMatchObject([{ peer: '127.0.0.1', reason }])
      expect(stage.warnings()[0]?.msg).toContain(`${name} that ${words}`)
      expect(stage.warnings()[0]?.msg).toContain('the quote is not shared')
    },
  )

  it('shares with all users with QUOTE_PARTITION=none, and the log says so', async () => {
    const stage = await behindProxy({ QUOTE_PARTITION: 'none' })
    const ids = new Set<string>()
    for (const client of ['for=unknown', 'for=203.0.113.7', 'for=unknown'])
      ids.add((await stage.asked(['Forwarded', client])).body)
    expect(ids.size).toBe(1)
    expect(stage.forwarded()).toEqual(['for=unknown'])
    expect(stage.warnings().map(({ msg }) => msg)).toEqual([
      expect.stringMatching(
        /names no user.*is shared with all users \(QUOTE_PARTITION=none\)/,
      ),
    ])
  })

  it('shares no quote by place either, because the provider does not see the place', async () => {
    const stage = await behindProxy({
      QUOTE_PARTITION: 'header',
      QUOTE_PARTITION_HEADER: 'cf-ipcountry',
    })
    for (const client of [
      'for=unknown',
      'for=203.0.113.7',
      'for=unknown',
      'for=203.0.113.8',
    ])
      await stage.asked(['CF-IPCountry', 'DE', 'Forwarded', client])
    expect(stage.upstream.requests).toHaveLength(3)
  })
})
