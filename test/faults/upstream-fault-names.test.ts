import { expect, onTestFinished, test, vi } from 'vitest'
import { expectProblem } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog } from '../support/observing/log-lines.ts'

// On call, one follows a fault from the dashboard to the log: both have to call it the same.
const cut = 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort'
const requests = {
  payments: 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n',
  swap: 'GET /v3/pairs/ETH_USDC/quotes?amount=1 HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n\r\n',
}

test.each([
  ['payments', 'closes', 'http_response_incomplete'],
  ['payments', 'stalls', 'http_response_timeout'],
  ['swap', 'closes', 'http_response_incomplete'],
  ['swap', 'stalls', 'http_response_timeout'],
] as const)(
  'an answer of %s that %s within its body is %s in the log and in the metrics',
  async (side, how, fault) => {
    const upstream = await rawUpstream((socket) => {
      socket.write(cut, () => how === 'closes' && socket.end())
    })
    const log = await keptLog('info')
    const urls = {
      SWAP_BASE_URL: upstream.url,
      PAYMENTS_BASE_URL: upstream.url,
      bodyTimeoutMs: 50,
    }
    const gateway = await startGateway(urls, { logger: log.logger })
    onTestFinished(() => gateway.close())
    const client = new RawConnection(gateway.url)
    client.write(requests[side])
    await vi.waitFor(() => expect(log.lines().some((line) => line.fault === fault)).toBe(true), 5_000)
    const series = `quotegate_upstream_requests_total{upstream="${side}",outcome="${fault}"}`
    expect(await counted(gateway, series)).toBe(1)
  },
)

test('an https base URL for a port that speaks http is reported differently from a provider that closes the connection', async () => {
  const upstream = await recordingUpstream(() => {})
  const gateway = await startGateway({ PAYMENTS_BASE_URL: upstream.url.replace('http:', 'https:') })
  onTestFinished(() => gateway.close())
  const answer = await rawExchange(gateway.url, requests.payments)
  expectProblem(answer, 502, 'upstream-unreachable')
  expect(valuesOf(answer.rawHeaders, 'proxy-status').join()).toContain('error=tls_protocol_error')
})

test('a status below 100 is an invalid answer, and opens no breaker', async () => {
  const upstream = await rawUpstream((socket) =>
    socket.write('HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n'),
  )
  const gateway = await gatewayTo(upstream.url)
  for (let times = 0; times < 7; times += 1) {
    const { rawHeaders } = await rawExchange(gateway.url, 'GET /v3/assets HTTP/1.1\r\nHost: g\r\n\r\n')
    expect(valuesOf(rawHeaders, 'proxy-status').join()).toContain('error=http_protocol_error')
  }
})
