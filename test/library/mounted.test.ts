import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type Express } from 'express'
import request from 'supertest'
import { afterEach, describe, expect, test } from 'vitest'
import { createGateway, type Gateway, type GatewaySettings } from '../../src/index.ts'
import { attack } from '../support/clients/attack.ts'
import { type RecordingUpstream, startRecordingUpstream } from '../support/upstreams/recording-upstream.ts'

const closing: { close(): Promise<unknown> }[] = []
afterEach(async () => {
  for (const one of closing.splice(0).reverse()) await one.close()
})

async function upstream(): Promise<RecordingUpstream> {
  const started = await startRecordingUpstream((_request, response) => {
    response.writeHead(200, ['Set-Cookie', 'a=1', 'X-One', '1', 'set-cookie', 'b=2'])
    response.end('answered')
  })
  closing.push(started)
  return started
}

async function gatewayOf(settings: GatewaySettings = {}): Promise<Gateway> {
  const gateway = await createGateway(settings)
  closing.push(gateway)
  return gateway
}

async function urlOf(parent: Express): Promise<string> {
  const server = createServer(parent).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  closing.push({ close: () => new Promise((resolve) => server.close(resolve)) })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const bytes = '{"amount": 0.1000000000000000055 }'

describe('an app mounted in another', () => {
  test('matches and forwards by the path below the mount point', async () => {
    const { url, requests } = await upstream()
    const gateway = await gatewayOf({ SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url })
    const parent = express().use('/swap', gateway.app)
    for (const target of ['/v3/pairs?x=%20&y', '/checkouts//a%2Fb', '/v3/pairs/A_B/quotes?amount=1'])
      await request(parent).get(`/swap${target}`).set('App-Name', 'tests').expect(200, 'answered')
    expect(requests.map(({ target }) => target)).toEqual([
      '/v3/pairs?x=%20&y',
      '/checkouts//a%2Fb',
      '/v3/pairs/A_B/quotes?amount=1',
    ])
    const missing = await request(parent).get('/swap').expect(404)
    expect(missing.body.type).toBe('urn:quotegate:problem:not-found')
    await request(parent)
      .get('/v3/pairs')
      .expect(404, /Cannot GET/)
  })

  test('has its quotes, its cache and its orders there', async () => {
    const gateway = await gatewayOf()
    const parent = express().use('/swap', gateway.app)
    const ask = () =>
      request(parent).get('/swap/v3/pairs/ETH_USDC/quotes?amount=0.1').set('App-Name', 'tests').expect(200)
    const { body: quote } = await ask()
    expect((await ask()).headers['cache-status']).toMatch(/^quotegate; hit/)
    const order = { pairId: quote.pairId, fromAmount: 0.1, toAmount: quote.toAmount.value, toAddress: '0xto' }
    await request(parent).post('/swap/v3/orders/float').set('App-Name', 'tests').send(order).expect(201)
  })

  test('relays a body byte for byte after slow middleware', async () => {
    const { url, requests } = await upstream()
    const gateway = await gatewayOf({ SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url })
    const parent = express()
      .use(async (_request, _response, next) => {
        await new Promise((resolve) => setTimeout(resolve, 20))
        next()
      })
      .use('/swap', gateway.app)
      .use(express.json())
    const post = request(parent).post('/swap/checkouts').set('Content-Type', 'application/json')
    await post.send(bytes).expect(200)
    expect(requests[0]?.body.toString()).toBe(bytes)
  })

  test.each(['/checkouts', '/v3/orders', '/v3/orders/float', '/v3/anything'])(
    'says what is wrong where a body parser is in front of it: %s',
    async (path) => {
      const { url, requests } = await upstream()
      const gateway = await gatewayOf({ SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url })
      const parent = express().use(express.json()).use('/swap', gateway.app)
      const post = request(parent).post(`/swap${path}`).set('Content-Type', 'application/json')
      const { body } = await post.send(bytes).expect(500)
      expect(body).toMatchObject({ type: 'urn:quotegate:problem:body-already-read', retryable: false })
      expect(body.detail).toContain('before any body parser')
      expect(requests).toEqual([])
    },
  )

  test('does not send the rest of a body that middleware has begun to read', async () => {
    const { url, requests } = await upstream()
    const gateway = await gatewayOf({ SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url })
    const parent = express()
      .use((request, _response, next) => {
        let begun = false
        request.on('readable', () => {
          if (begun) return
          begun = true
          request.read(3)
          next()
        })
      })
      .use('/swap', gateway.app)
    const post = request(parent).post('/swap/checkouts').set('Content-Type', 'application/json')
    const { body } = await post.send(bytes).expect(500)
    expect(body).toMatchObject({ type: 'urn:quotegate:problem:body-already-read' })
    expect(requests).toEqual([])
  })

  // A logger in front of us that only listened made `é` of a payment into `C)`, as long as before.
  test.each(['/checkouts', '/v3/orders', '/v3/orders/float', '/v3/anything'])(
    'does not send a body that middleware has decoded to text: %s',
    async (path) => {
      const { url, requests } = await upstream()
      const gateway = await gatewayOf({ SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url })
      const parent = express()
        .use((request, _response, next) => {
          request.setEncoding('ascii')
          next()
        })
        .use('/swap', gateway.app)
      const post = request(parent).post(`/swap${path}`).set('Content-Type', 'application/json')
      const { body } = await post.send('{"name":"é"}').expect(500)
      expect(body).toMatchObject({ type: 'urn:quotegate:problem:body-already-read', retryable: false })
      expect(requests).toEqual([])
    },
  )

  test.each(['/checkouts', '/v3/orders', '/v3/anything'])(
    'relays a body although middleware has changed its framing headers: %s',
    async (path) => {
      const { url, requests } = await upstream()
      const gateway = await gatewayOf({ SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url })
      const parent = express()
        .use((request, _response, next) => {
          delete request.headers['content-length']
          delete request.headers['transfer-encoding']
          next()
        })
        .use('/swap', gateway.app)
      const target = `${await urlOf(parent)}/swap${path}`
      const headers = { 'Content-Type': 'application/json' }
      const chunked = { body: new Blob([bytes]).stream(), duplex: 'half' } as RequestInit
      for (const sent of [{ body: bytes }, chunked])
        expect((await fetch(target, { method: 'POST', headers, ...sent })).status).toBe(200)
      expect(requests.map(({ body }) => body.toString())).toEqual([bytes, bytes])
    },
  )

  test('answers requests without a body after a body parser', async () => {
    const gateway = await gatewayOf()
    const parent = express().use(express.json()).use('/swap', gateway.app)
    await request(parent).get('/swap/v3/pairs').expect(200)
  })

  // On Node 20 the last of two Set-Cookie won as soon as the parent had set any header.
  test('keeps every field of an answer, whatever headers the parent sets', async () => {
    const { url } = await upstream()
    const gateway = await gatewayOf({ SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url })
    const parent = express().use('/swap', gateway.app)
    for (const path of ['/swap/checkouts', '/swap/v3/pairs']) {
      const { headers } = await request(parent).get(path).expect(200)
      expect(headers).toMatchObject({ 'x-powered-by': 'Express', 'x-one': '1' })
      expect(headers['set-cookie']).toEqual(['a=1', 'b=2'])
    }
  })

  // `on-headers` before 1.1 did this, so a payment that was made behind an older express-session became a 502.
  test('keeps every field after middleware that sets fields while the head is written', async () => {
    const { url } = await upstream()
    const gateway = await gatewayOf({ SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url })
    const parent = express()
      .disable('x-powered-by')
      .use((_request, response, next) => {
        const writeHead = response.writeHead.bind(response)
        response.writeHead = (status: number, ...rest: unknown[]) => {
          const [reason, pairs = []] = typeof rest[0] === 'string' ? rest : ['', rest[0]]
          for (const [name, value] of pairs as string[]) response.setHeader(name as string, value as string)
          response.setHeader('X-Parent', '1')
          return writeHead(status, reason as string)
        }
        next()
      })
      .use('/swap', gateway.app)
    for (const path of ['/swap/checkouts', '/swap/v3/pairs']) {
      const { headers } = await request(parent).post(path).send(bytes).expect(200, 'answered')
      expect(headers).toMatchObject({ 'x-parent': '1', 'x-one': '1', 'set-cookie': ['a=1', 'b=2'] })
    }
    const refused = await request(parent).get('/swap/nothing').expect(404)
    expect(refused.headers).toMatchObject({ 'x-parent': '1', 'content-type': 'application/problem+json' })
    const unreadable = await request(parent).get('/swap/v3/%zz').expect(400)
    expect(unreadable.headers).toMatchObject({ 'content-type': 'application/problem+json' })
  })

  test('may be mounted twice, with different upstreams', async () => {
    const [first, second] = [await upstream(), await upstream()]
    const one = await gatewayOf({ SWAP_BASE_URL: first.url })
    const other = await gatewayOf({ SWAP_BASE_URL: second.url })
    const parent = express().use('/one', one.app).use('/other', other.app)
    await request(parent).get('/one/v3/a').expect(200)
    await request(parent).get('/other/v3/b').expect(200)
    expect([first, second].map(({ requests }) => requests.map(({ target }) => target))).toEqual([
      ['/v3/a'],
      ['/v3/b'],
    ])
  })

  test('does not handle requests that are refused for their target', async () => {
    const { url, requests } = await upstream()
    const gateway = await gatewayOf({ SWAP_BASE_URL: url })
    const at = await urlOf(express().use('/swap', gateway.app))
    for (const target of ['/swap/v3/../admin', '/swap/v3/%2e%2e/admin']) {
      const { answers } = await attack(at, `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
      expect(answers.map(({ status }) => status)).toEqual([400])
    }
    expect(requests).toEqual([])
  })

  // No event would say that such a request is over, and close() would wait for it.
  test('forgets a client that left before the parent was done with it', async () => {
    const gateway = await gatewayOf()
    const leaving = new AbortController()
    let over = false
    const at = await urlOf(
      express()
        .use((_request, response, next) => {
          leaving.abort()
          response.once('close', () => {
            next()
            over = true
          })
        })
        .use('/swap', gateway.app),
    )
    await expect(fetch(`${at}/swap/v3/pairs`, { signal: leaving.signal })).rejects.toThrow('aborted')
    await expect.poll(() => over).toBe(true)
    expect(await gateway.metrics()).toContain('quotegate_http_requests_in_flight 0')
  })
})
