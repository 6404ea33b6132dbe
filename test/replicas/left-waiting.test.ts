import { expect, onTestFinished, test } from 'vitest'
import { ask, asking, giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { startValkey } from '../support/stores/valkey.ts'

test("a client that leaves while it waits for another replica's call is not counted against its limit", {
  tags: ['redis-server'],
}, async () => {
  const store = await startValkey()
  onTestFinished(() => store.end())
  let answerFirst = () => {}
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.includes('/quotes')) answerFirst = () => giveQuote(response)
    else response.end('{}')
  })
  const settings = {
    ...{ VALKEY_URL: store.url, VALKEY_TIMEOUT_MS: 2_000, QUOTE_PARTITION: 'none', TRUST_PROXY: 'loopback' },
    ...{ RATE_LIMIT_PER_MINUTE: 10, RATE_LIMIT_BY: 'client-ip' },
  }
  const one = await gatewayTo(upstream.url, settings)
  const two = await gatewayTo(upstream.url, settings)
  const from = (address: string) => ['App-Name', 'wallet', 'Forwarded', `for=${address}`]
  const first = asking(one.url, '0.1', from('198.51.100.1'))
  await until(() => upstream.requests.length === 1, 'a call that another replica waits for')
  const leaving = new AbortController()
  const left = ask(two.url, { headers: from('198.51.100.2'), signal: leaving.signal }).catch(() => 'left')
  await pause(300)
  leaving.abort()
  await left
  await pause(300)
  const { headers } = await ask(two.url, { path: '/v3/assets', headers: from('198.51.100.2') })
  expect(String(headers.ratelimit)).toContain('r=9')
  answerFirst()
  await first
})
