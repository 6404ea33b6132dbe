import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asking, counted, quotePath, untilCounted } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import { readPage, seriesNames } from '../support/observing/metrics-page.ts'
import { promtool } from '../support/observing/promtool.ts'

let gateway: RunningGateway
const page = async () => (await fetch(`${gateway.operationsUrl}/metrics`)).text()
beforeAll(async () => {
  gateway = await startGateway({ METRICS_PAIRS: 'ETH_USDC' })
})
afterAll(() => gateway.close())

test('docs/metrics.md names every metric of a running gateway and no other, with its type and labels', async () => {
  const text = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8')
  const rows = [
    ...text.matchAll(/^\| `(\w+)` \| (\w+) \| ([\w, ]*)\| (.+) \| (.+) \|$/gm),
  ]
  const documented = rows.map(([, name, type, labels = '']) =>
    [name, type, labels.trim()].join(': '),
  )
  const metrics = [...readPage(await page()).values()]
  const exposed = metrics.map(({ name, type, labels }) =>
    [name, type, labels.join(', ')].join(': '),
  )
  expect(documented.sort()).toEqual(exposed.sort())
})

/** Requests of a caller that wants to fill the metrics. */
const hostile = Array.from({ length: 40 }, (_, index) => {
  const word = `x${index}"\\}`
  const paths = [
    `${quotePath}?amount=${index}.5`,
    `/v3/pairs/P${index}_Q/quotes?amount=1`,
  ]
  const path = [...paths, `/${encodeURIComponent(word)}`, `/checkouts/${index}`][
    index % 4
  ]
  const method = ['GET', 'PROPFIND', 'PATCH', 'M-SEARCH', 'HEAD'][index % 5]
  const headers = ['App-Name', 'User-Agent', 'X-Request-Id', 'Traceparent'].map(
    (name) => `${name}: ${word}`,
  )
  const own = [`Forwarded: for=${word}`, 'Connection: close', '', '']
  return [`${method} ${path} HTTP/1.1`, 'Host: gate', ...headers, ...own].join('\r\n')
})
const unreadable = [
  'BREW / HTTP/1.1\r\nHost: gate\r\n\r\n',
  'GET /v3/../metrics HTTP/1.1\r\nHost: gate\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: gate\r\nHost: other\r\n\r\n',
  `GET / HTTP/1.1\r\nHost: gate\r\nX: ${'y'.repeat(20_000)}\r\n\r\n`,
  'CONNECT gate:443 HTTP/1.1\r\nHost: gate:443\r\n\r\n',
]

test('a caller cannot add a series, whatever it sends', async () => {
  await asking(gateway.url, '0.1')
  const before = seriesNames(await page())
  for (const request of [...hostile, ...unreadable])
    await rawExchange(gateway.url, request)
  const after = await page()
  expect(seriesNames(after)).toEqual(before)
  // They did arrive.
  const requests = readPage(after).get('quotegate_http_requests_total')?.series ?? []
  expect(requests.reduce((sum, { value }) => sum + value, 0)).toBeGreaterThanOrEqual(
    hostile.length,
  )
  const others = requests.filter(({ labels }) => labels.method === 'other')
  expect(others.reduce((sum, { value }) => sum + value, 0)).toBeGreaterThan(0)
})

test('a quote is counted with its pair when it is fetched, and when it is served again', async () => {
  const served = 'quotegate_quotes_served_total{pair="ETH_USDC"}'
  const calls = 'quotegate_quote_calls_total{pair="ETH_USDC"}'
  const [servedBefore, callsBefore] = [
    await counted(gateway, served),
    await counted(gateway, calls),
  ]
  await asking(gateway.url, '77')
  await asking(gateway.url, '77')
  await untilCounted(gateway, served, servedBefore + 2)
  expect(await counted(gateway, calls)).toBe(callsBefore + 1)
})

test('promtool accepts the page of a gateway that has served requests', {
  tags: ['promtool'],
}, async () => {
  await asking(gateway.url, '3')
  expect(promtool(['check', 'metrics'], await page())).toEqual({ status: 0, output: '' })
})
