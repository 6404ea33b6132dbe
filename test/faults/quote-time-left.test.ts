import type { ServerResponse } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ask, counted, giveQuote, quoteBody, watchForUnhandled } from '../support/clients/quotes.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { held } from '../support/gateways/held.ts'

// A request that needed a second call waited for up to twice UPSTREAM_TOTAL_TIMEOUT_MS.

const ended = (outcome: string) => `quotegate_upstream_requests_total{upstream="swap",outcome="${outcome}"}`
const timeoutType = 'urn:quotegate:problem:upstream-timeout'

describe('a request that joined a call whose answer may not be shared', () => {
  it('waits for a call of its own only as long as its own time lasts', async () => {
    const headers = ['Vary', '*']
    const {
      upstream,
      gateway,
      waiting,
      called,
      joined,
      ended: closed,
    } = await held({
      UPSTREAM_TOTAL_TIMEOUT_MS: '4000',
    })
    const unhandled = watchForUnhandled()
    const beginner = ask(gateway.url)
    await called(1)
    const joiner = ask(gateway.url)
    await joined(1)
    await pause(1_500)
    giveQuote(waiting[0] as ServerResponse, quoteBody(), headers)
    expect((await beginner).status).toBe(200)
    await called(2)
    const { status, body } = await joiner
    expect([status, JSON.parse(body)]).toMatchObject([504, { type: timeoutType, retryable: true }])
    // Its call was given up before that call's own time was over.
    await closed(waiting[1])
    expect(await counted(gateway, ended('given-up'))).toBe(1)
    expect(await counted(gateway, ended('http_response_timeout'))).toBe(0)
    expect(upstream.requests).toHaveLength(2)
    expect(unhandled).toEqual([])
  })
})

describe('a request whose quote expired before it could be written', () => {
  it('waits for another one only as long as its own time lasts', async () => {
    // Every look at this clock costs 10 ms, so some quotes live when they arrive, and not when they are to be written.
    let nowMs = Date.now()
    const clock = {
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
    answer = (response) => {
      // The first answer is late, and the second call hangs.
      if (upstream.requests.length === before + 1) setTimeout(() => give(response), 1_500)
    }
    const { status, body } = await quote(1_000)
    expect([status, JSON.parse(body).type]).toEqual([504, timeoutType])
    expect(upstream.requests).toHaveLength(before + 2)
    expect(await counted(gateway, ended('given-up'))).toBe(1)
    expect(await counted(gateway, ended('http_response_timeout'))).toBe(0)
  })
})
