import { createServer, type ServerResponse } from 'node:http'
import express from 'express'
import { describe, expect, it } from 'vitest'
import {
  ask,
  createTestClock,
  giveQuote,
  quoteBody,
  quotePath,
} from '../support/clients/quotes.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'
import { quotesThatExpireWaiting } from '../support/gateways/short-lived-quotes.ts'
import { listening } from '../support/machine/listening.ts'

// A quote may expire between its arrival and the moment at which its answer can be written.

const get = (target: string) =>
  `GET ${target} HTTP/1.1\r\nHost: gateway\r\nApp-Name: wallet\r\n\r\n`

// The server of the parent app begins all pipelined requests at once and holds their answers back.
describe('in a mounted app, a quote behind an answer that takes long', () => {
  async function mounted() {
    const clock = createTestClock()
    const slow: ServerResponse[] = []
    const upstream = await recordingUpstream(({ target }, response) => {
      const date = ['Date', new Date(clock.nowMs()).toUTCString()]
      if (target === '/checkouts/slow') slow.push(response)
      else giveQuote(response, quoteBody({ expiry: clock.nowMs() + 30_000 }), date)
    })
    const gateway = await gatewayTo(upstream.url, {}, { clock })
    const { url } = await listening(createServer(express().use(gateway.app)))
    return { clock, slow, upstream, url }
  }

  it.each([
    ['was in memory when it was asked for', true],
    ['had to be fetched', false],
  ])('is live when its turn comes: it %s', async (_how, isKept) => {
    const { clock, slow, url } = await mounted()
    const target = `${quotePath}?amount=1`
    if (isKept) await ask(url, { path: target })
    const connection = new RawConnection(
      url,
      get('/checkouts/slow') + get(target) + get(target),
    )
    await until(() => slow.length === 1, 'the slow one to be asked for')
    const probe = await ask(url, { path: '/checkouts/1' })
    expect(probe.status).toBe(200)
    clock.advance(60_000)
    slow[0]?.end('slow')
    expect((await connection.answer()).body.toString()).toBe('slow')
    for (const answer of [await connection.answer(), await connection.answer()]) {
      expect(answer.status).toBe(200)
      expect(JSON.parse(answer.body.toString()).expiry).toBeGreaterThan(clock.nowMs())
    }
  })
})

it('a quote that expires before it is written is fetched three times, and then answered with its own problem', async () => {
  const { url, upstream, lifeMs } = await quotesThatExpireWaiting()
  const before = upstream.requests.length
  const { status, headers, body } = await ask(url, {
    path: `${quotePath}?amount=${lifeMs}`,
  })
  expect([status, JSON.parse(body)]).toMatchObject([
    504,
    { type: 'urn:quotegate:problem:quote-expired-waiting', retryable: true },
  ])
  expect(headers['cache-status']).toBeUndefined()
  expect(upstream.requests.length - before).toBe(3)
})
