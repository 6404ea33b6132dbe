import type { ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ask, counted, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { recordingUpstream, until } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { VirtualTime } from '../support/machine/virtual-time.ts'

// A request that needed a second call waited for up to twice UPSTREAM_TOTAL_TIMEOUT_MS.

const ended = (outcome: string) => `quotegate_upstream_requests_total{upstream="swap",outcome="${outcome}"}`
const timeoutType = 'urn:quotegate:problem:upstream-timeout'

describe('a request whose quote expired before it could be written', () => {
  it('waits for another one only as long as its own time lasts', async () => {
    // Every look at this clock costs 10 ms, so some quotes live when they arrive, and not when they are to be written.
    let nowMs = Date.now()
    const timers = new VirtualTime()
    const clock = {
      timers,
      nowMs: () => {
        nowMs += 10
        return nowMs
      },
    }
    let lifeMs = 0
    let answer = (response: ServerResponse) =>
      giveQuote(response, quoteBody({ expiry: nowMs + lifeMs }), ['Date', 'none'])
    const upstream = await recordingUpstream((_request, response) => answer(response))
    const gateway = await startGateway(
      { SWAP_BASE_URL: upstream.url, UPSTREAM_TOTAL_TIMEOUT_MS: '4000' },
      { clock },
    )
    onTestFinished(() => gateway.close())
    const quote = (amount: number) => ask(gateway.url, { path: `/v3/pairs/A_B/quotes?amount=${amount}` })
    const lives: number[] = []
    for (lifeMs = 5; lifeMs < 400; lifeMs += 10) if ((await quote(lifeMs)).status === 504) lives.push(lifeMs)
    lifeMs = lives[Math.floor(lives.length / 2)] ?? 0
    const before = upstream.requests.length
    const give = answer
    const waiting: ServerResponse[] = []
    answer = (response) => void waiting.push(response)
    const asked = quote(1_000)
    await until(() => waiting.length === 1, 'the first call')
    await timers.pass(1_500)
    give(waiting[0] as ServerResponse)
    await until(() => waiting.length === 2, 'the second call, which hangs')
    await timers.pass(2_500)
    const { status, body } = await asked
    expect([status, JSON.parse(body).type]).toEqual([504, timeoutType])
    expect(upstream.requests).toHaveLength(before + 2)
    expect(await counted(gateway, ended('given-up'))).toBe(1)
    expect(await counted(gateway, ended('http_response_timeout'))).toBe(0)
  })
})
