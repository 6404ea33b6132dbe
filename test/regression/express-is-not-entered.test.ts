import { createServer, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createGateway } from '../../src/gateway.ts'

const target = '/v3/pairs/ETH_USDC/quotes?amount=0.1'

// Express gives each request and response another prototype, which costs more than a whole hit does without it.
// So quotes and what passes through are answered before it is entered, and only a prototype shows that from outside.
async function whoAnswers(
  settings: { FAST_LANE: string },
  path: string,
  side: 'listener' | 'operations' = 'listener',
): Promise<('express' | 'lane')[]> {
  const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0, ...settings })
  const seen: ('express' | 'lane')[] = []
  const server = createServer((request, response) => {
    response.once('finish', () => {
      seen.push(Object.getPrototypeOf(response) === ServerResponse.prototype ? 'lane' : 'express')
    })
    gateway[side](request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await gateway.close()
  })
  const { port } = server.address() as AddressInfo
  for (let count = 0; count < 3; count += 1) {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { 'app-name': 'test' } })
    expect(answer.status).toBe(path === '/readyz' ? 503 : 200)
    await answer.arrayBuffer()
  }
  return seen
}

test('a quote never enters Express, fetched or from the cache', async () => {
  expect(await whoAnswers({ FAST_LANE: 'on' }, target)).toEqual(['lane', 'lane', 'lane'])
})

test('what passes through never enters Express', async () => {
  expect(await whoAnswers({ FAST_LANE: 'on' }, '/v3/assets')).toEqual(['lane', 'lane', 'lane'])
})

test('without the fast lane, Express answers everything', async () => {
  expect(await whoAnswers({ FAST_LANE: 'off' }, target)).toEqual(['express', 'express', 'express'])
})

test.each(['/metrics', '/metrics?name=quotegate_build_info', '/healthz', '/readyz'])(
  'what machines poll never enters Express: %s',
  async (path) => {
    expect(await whoAnswers({ FAST_LANE: 'on' }, path, 'operations')).toEqual(['lane', 'lane', 'lane'])
  },
)

test('Express answers other spellings of what machines poll, just the same', async () => {
  expect(await whoAnswers({ FAST_LANE: 'on' }, '/METRICS/', 'operations')).toEqual([
    'express',
    'express',
    'express',
  ])
})
