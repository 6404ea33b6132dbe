import { describe, expect, test } from 'vitest'
import { ask, startedSandbox } from './support.ts'

const restricted = { Forwarded: 'for=203.0.113.7', 'App-Name': 'tests' }
const idsOf = (body: { id: string }[]) => body.map(({ id }) => id)

async function csv(url: string, headers: Record<string, string> = {}) {
  const response = await fetch(url, { headers })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8')
  expect(response.headers.get('sandbox')).toBe('quotegate')
  return response.text()
}

describe('GET /v3/pairs', () => {
  test('lists all, or those from and to an asset', async () => {
    const sandbox = await startedSandbox({ prices: { DOGE_USDC: 0.1 } })
    const pairs = async (query: string) => (await ask(sandbox, 'GET', `/v3/pairs${query}`)).body
    expect(await pairs('?from=DOGE')).toEqual([{ id: 'DOGE_USDC', from: 'DOGE', to: 'USDC' }])
    expect(idsOf(await pairs('?to=USDT&format=json'))).toEqual([
      'BTC_USDT',
      'ETH_USDT',
      'LTC_USDT',
      'SOL_USDT',
      'USDC_USDT',
    ])
    expect(idsOf(await pairs('?from=ETH&to=USDC'))).toEqual(['ETH_USDC'])
    expect(await pairs('?from=ETH&to=DOGE')).toEqual([])
    expect(await pairs('')).toHaveLength(31)
  })

  test('is one line of ids as CSV', async () => {
    const sandbox = await startedSandbox()
    expect(await csv(`${sandbox.url}/v3/pairs?from=SOL&format=csv`)).toBe(
      'SOL_BTC,SOL_ETH,SOL_LTC,SOL_USDC,SOL_USDT',
    )
  })

  test('is 200 and empty in a restricted place', async () => {
    const sandbox = await startedSandbox()
    for (const query of ['', '?from=ETH', '?format=json']) {
      const { status, body } = await ask(sandbox, 'GET', `/v3/pairs${query}`, { headers: restricted })
      expect([status, body]).toEqual([200, []])
    }
    expect(await csv(`${sandbox.url}/v3/pairs?format=csv`, restricted)).toBe('')
  })

  test('refuses a format that it does not have', async () => {
    const sandbox = await startedSandbox()
    expect((await ask(sandbox, 'GET', '/v3/pairs?format=xml')).status).toBe(400)
  })
})

describe('GET /v3/assets', () => {
  test('lists all, or those of some networks or with a text in them', async () => {
    const sandbox = await startedSandbox({ prices: { DOGE_USDC: 0.1 } })
    const assets = async (query: string) => idsOf((await ask(sandbox, 'GET', `/v3/assets${query}`)).body)
    expect(await assets('')).toEqual(['BTC', 'ETH', 'LTC', 'SOL', 'USDC', 'USDT', 'DOGE'])
    expect(await assets('?networks=ethereum')).toEqual(['ETH', 'USDC', 'USDT'])
    expect(await assets('?networks=solana,bitcoin&format=json')).toEqual(['BTC', 'SOL'])
    expect(await assets('?query=coin')).toEqual(['BTC', 'LTC', 'USDC'])
    expect(await assets('?query=usd&networks=solana')).toEqual([])
  })

  test('is paged', async () => {
    const sandbox = await startedSandbox()
    const assets = async (query: string) => idsOf((await ask(sandbox, 'GET', `/v3/assets${query}`)).body)
    expect(await assets('?limit=4')).toEqual(['BTC', 'ETH', 'LTC', 'SOL'])
    expect(await assets('?limit=4&page=2')).toEqual(['USDC', 'USDT'])
    expect(await assets('?limit=4&page=3')).toEqual([])
    expect(await assets('?networks=ethereum&limit=1&page=2')).toEqual(['USDC'])
    expect(await csv(`${sandbox.url}/v3/assets?limit=2&page=2&format=csv`)).toBe('LTC,SOL')
  })

  test.each(['limit=0', 'limit=-1', 'limit=x', 'page=0', 'page=1.5', 'limit=10000', 'format=xml'])(
    'refuses ?%s',
    async (query) => {
      const sandbox = await startedSandbox()
      const { status, body } = await ask(sandbox, 'GET', `/v3/assets?${query}`)
      expect([status, body.code]).toEqual([400, 'BAD_REQUEST'])
    },
  )

  test('gives one by its id, in a restricted place too', async () => {
    const sandbox = await startedSandbox()
    const { status, body } = await ask(sandbox, 'GET', '/v3/assets/USDC', { headers: restricted })
    expect(status).toBe(200)
    expect(body).toEqual({ id: 'USDC', symbol: 'USDC', name: 'USD Coin', network: 'ethereum', decimals: 6 })
    const missing = await ask(sandbox, 'GET', '/v3/assets/usdc')
    expect([missing.status, missing.body.code]).toEqual([404, 'NOT_FOUND'])
  })
})

test.each([
  ['POST', '/v3/trades'],
  ['POST', '/v3/provider-orders'],
  ['POST', '/v3/ledger/swap'],
])('%s %s is not imitated, and says so', async (method, path) => {
  const sandbox = await startedSandbox()
  const { status, body } = await ask(sandbox, method, path)
  expect(status).toBe(501)
  expect(body.code).toBe('SANDBOX_NOT_IMPLEMENTED')
})
