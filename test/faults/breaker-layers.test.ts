import { describe, expect, test } from 'vitest'
import { refusedPairs } from '../../src/upstream/breakers.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`
const order = '/kind/float-order'
const plainOrder = '/kind/order'
const quoteOf = (pair: string) => `/quote-of/${pair}`

const limits = { breakerFailures: 3, breakerOpenMs: 60_000, retries: 0 }

/** An upstream of which the paths with one of these words in them fail with 503. */
async function failingAt(...words: string[]) {
  const failing = new Set(words)
  const upstream = await recordingUpstream((request, response) => {
    if ([...failing].some((word) => request.target.includes(word))) response.writeHead(503)
    response.end('it')
  })
  return { ...upstream, failing }
}

/** 'it' came from the upstream; else the breaker that refused. */
async function statusOf(url: string, path: string): Promise<string> {
  const { body, status } = await rawExchange(url, get(path))
  const text = body.toString()
  return text === 'it' ? `${status}` : `refused: ${JSON.parse(text).breaker}`
}

async function statusesOf(url: string, ...paths: string[]): Promise<string[]> {
  const statuses: string[] = []
  for (const path of paths) statuses.push(await statusOf(url, path))
  return statuses
}

describe('what fails on the swap side stops alone', () => {
  test.each([
    ['orders, float or not', [order, plainOrder, order], [order, plainOrder], 'orders'],
    ['everything that is neither order nor quote', ['/a', '/b', '/c'], ['/a', '/d'], 'rest'],
    ['the quotes of one pair', [quoteOf('A'), quoteOf('A'), quoteOf('A')], [quoteOf('A')], 'pair'],
  ])('%s', async (_what, failing, refused, breaker) => {
    const upstream = await failingAt(...failing)
    const edge = await edgeTo(upstream.url, limits)
    expect(await statusesOf(edge.url, ...failing)).toEqual(['503', '503', '503'])
    expect(await statusesOf(edge.url, ...refused)).toEqual(refused.map(() => `refused: ${breaker}`))
    const others = [order, '/x', quoteOf('X')].filter((path) => {
      if (breaker === 'pair') return true
      return !path.startsWith({ orders: '/kind', rest: '/x' }[breaker] ?? '')
    })
    expect(await statusesOf(edge.url, ...others)).toEqual(others.map(() => '200'))
    expect(edge.states).toEqual(breaker === 'pair' ? [] : [`${breaker} open`])
    expect(refusedPairs(edge.upstream.breakers)).toEqual(breaker === 'pair' ? ['A'] : [])
  })

  // Five failing pairs used to stop the quotes of all.
  test('any number of failing pairs stops no other pair', async () => {
    const upstream = await failingAt('BAD')
    const edge = await edgeTo(upstream.url, limits)
    const bad = Array.from({ length: 20 }, (_none, index) => quoteOf(`BAD${index}`))
    for (let failure = 1; failure <= 3; failure += 1) {
      expect(await statusesOf(edge.url, ...bad)).toEqual(bad.map(() => '503'))
    }
    expect(await statusesOf(edge.url, ...bad)).toEqual(bad.map(() => 'refused: pair'))
    expect(await statusesOf(edge.url, quoteOf('X'), quoteOf('Y'))).toEqual(['200', '200'])
    expect(refusedPairs(edge.upstream.breakers)).toHaveLength(20)
    expect(edge.states).toEqual([])
  })

  test('after breakerOpenMs one quote of each stopped pair tries, and the rest of that pair waits for it', async () => {
    const upstream = await failingAt('A', 'B')
    const edge = await edgeTo(upstream.url, { ...limits, breakerFailures: 2, breakerOpenMs: 300 })
    await statusesOf(edge.url, ...['A', 'A', 'B', 'B'].map(quoteOf))
    expect(refusedPairs(edge.upstream.breakers).toSorted()).toEqual(['A', 'B'])
    await pause(350)
    const held: (() => void)[] = []
    upstream.answer(({ target }, response) => {
      if (target.endsWith('A')) held.push(() => response.end('it'))
      else response.end('it')
    })
    const trial = statusOf(edge.url, quoteOf('A'))
    await until(() => held.length === 1, 'the one that tries')
    expect(await statusesOf(edge.url, ...['A', 'B', 'B'].map(quoteOf))).toEqual([
      'refused: pair',
      '200',
      '200',
    ])
    held[0]?.()
    expect(await trial).toBe('200')
    expect(refusedPairs(edge.upstream.breakers)).toEqual([])
  })

  test('a trial whose client leaves lets another of its pair try', async () => {
    const upstream = await failingAt('A')
    const edge = await edgeTo(upstream.url, { ...limits, breakerOpenMs: 300 })
    await statusesOf(edge.url, quoteOf('A'), quoteOf('A'), quoteOf('A'))
    upstream.failing.clear()
    await pause(350)
    const held: string[] = []
    upstream.answer(({ target }) => held.push(target))
    const client = new RawConnection(edge.url)
    client.write(get(quoteOf('A')))
    await until(() => held.length === 1, 'the one that tries')
    client.socket.destroy()
    await until(() => edge.upstream.inFlight === 0, 'it to be given up')
    upstream.answer((_request, response) => response.end('it'))
    expect(await statusesOf(edge.url, quoteOf('A'), quoteOf('A'))).toEqual(['200', '200'])
  })

  test('long and many invented pair names do not fill memory', async () => {
    const upstream = await failingAt('BAD')
    const edge = await edgeTo(upstream.url, { ...limits, breakerFailures: 2 })
    const long = `BAD${'x'.repeat(6_000)}`
    await statusesOf(edge.url, quoteOf(long), quoteOf(long))
    const paths = [long, 'X', `${long}y`, 'X'].map(quoteOf)
    expect(await statusesOf(edge.url, ...paths)).toEqual(['refused: pair', '200', '503', '200'])
    expect(refusedPairs(edge.upstream.breakers).map(({ length }) => length)).toEqual([64])
    for (let count = 0; count < 1_000; count += 100) {
      const pairs = Array.from({ length: 100 }, (_none, index) => quoteOf(`P${count + index}`))
      await Promise.all(pairs.map((path) => rawExchange(edge.url, get(path))))
    }
    // It was asked for longest ago, so it has been forgotten.
    expect(refusedPairs(edge.upstream.breakers)).toEqual([])
  })
})
