import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, request as httpRequest, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import express, { type RequestHandler } from 'express'
import request from 'supertest'
import { describe, expect, onTestFinished, test } from 'vitest'
import { attack } from '../support/clients/attack.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { askQuote, gatewayOf, orderFor, ownServer, quotePath } from './support.ts'

const bytes = '{"amount": 0.1000000000000000055, "name": "é" }'

const upstreamWithCookies = () =>
  recordingUpstream((_request, response) => {
    response.writeHead(200, ['Set-Cookie', 'a=1', 'X-One', '1', 'set-cookie', 'b=2'])
    response.end('answered')
  })

/** A user's app with a gateway at /swap, behind this middleware. */
async function mounted(...before: RequestHandler[]) {
  const { url, requests } = await upstreamWithCookies()
  const gateway = await gatewayOf({ SWAP_BASE_URL: url, PAYMENTS_BASE_URL: url })
  const parent = express()
  for (const middleware of before) parent.use(middleware)
  parent.use('/swap', gateway.app)
  const post = (path: string) =>
    request(parent)
      .post(`/swap${path}`)
      .set('App-Name', 'tests')
      .set('Content-Type', 'application/json')
  const urlOf = async () => `http://127.0.0.1:${(await ownServer(parent)).port}/swap`
  return { gateway, parent, requests, post, urlOf }
}

describe('an app mounted in another', () => {
  test('matches and forwards by the path below the mount point', async () => {
    const { parent, requests } = await mounted()
    const targets = [
      '/v3/pairs?x=%20&y',
      '/checkouts//a%2Fb',
      '/v3/pairs/A_B/quotes?amount=1',
    ]
    for (const target of targets)
      await askQuote(parent, `/swap${target}`).expect(200, 'answered')
    expect(requests.map(({ target }) => target)).toEqual(targets)
    const missing = await request(parent).get('/swap').expect(404)
    expect(missing.body.type).toBe('urn:quotegate:problem:not-found')
    const outside = request(parent).get('/v3/pairs')
    await outside.expect(404, /Cannot GET/)
  })

  test('has its quotes, its cache and its orders there, and may be mounted twice, with different upstreams', async () => {
    const [one, other] = [await gatewayOf(), await mounted()]
    const parent = express().use('/one', one.app).use('/other', other.gateway.app)
    const { body: quote } = await askQuote(parent, `/one${quotePath}`).expect(200)
    const again = await askQuote(parent, `/one${quotePath}`)
    expect(again.headers['cache-status']).toMatch(/^quotegate; hit/)
    await request(parent)
      .post('/one/v3/orders/float')
      .set('App-Name', 'a')
      .send(orderFor(quote))
      .expect(201)
    await askQuote(parent, '/other/v3/b').expect(200, 'answered')
    expect(other.requests.map(({ target }) => target)).toEqual(['/v3/b'])
  })

  test('relays a body byte for byte after slow middleware', async () => {
    const { requests, post } = await mounted(
      (_request, _response, next) => void setTimeout(20).then(() => next()),
    )
    await post('/checkouts').send(bytes).expect(200)
    expect(requests[0]?.body.toString()).toBe(bytes)
  })

  const beginsToRead: RequestHandler = (request, _response, next) => {
    let begun = false
    request.on('readable', () => {
      if (begun) return
      begun = true
      request.read(3)
      next()
    })
  }
  // A logger in front of us that only listened made `é` of a payment into `C)`, as long as before.
  const decodesToText: RequestHandler = (request, _response, next) => {
    request.setEncoding('ascii')
    next()
  }
  test.each([
    ['has read it', express.json()],
    ['has begun to read it', beginsToRead],
    ['has decoded it to text', decodesToText],
  ])(
    'says what is wrong with a body where middleware in front of it %s, and sends nothing',
    async (_what, middleware) => {
      const { requests, post } = await mounted(middleware)
      for (const path of ['/checkouts', '/v3/orders', '/v3/orders/float']) {
        const { body } = await post(path).send(bytes).expect(500)
        expect(body).toMatchObject({
          type: 'urn:quotegate:problem:body-already-read',
          retryable: false,
        })
        expect(body.detail).toContain('before any body parser')
      }
      expect(requests).toEqual([])
    },
  )

  test('answers requests without a body after a body parser', async () => {
    const { parent } = await mounted(express.json())
    await request(parent).get('/swap/v3/pairs').expect(200)
  })

  test.each(['/checkouts', '/v3/orders'])(
    'relays a request as it came although middleware has changed its headers: %s',
    async (path) => {
      const { requests, urlOf } = await mounted((request, _response, next) => {
        delete request.headers['content-length']
        delete request.headers['transfer-encoding']
        delete request.headers.cookie
        request.headers['x-own'] = '1'
        next()
      })
      const url = await urlOf()
      const headers = { 'Content-Type': 'application/json', Cookie: 'session=1' }
      const chunked = { body: new Blob([bytes]).stream(), duplex: 'half' } as RequestInit
      for (const sent of [{ body: bytes }, chunked])
        expect(
          (await fetch(url + path, { method: 'POST', headers, ...sent })).status,
        ).toBe(200)
      expect(requests.map(({ body }) => body.toString())).toEqual([bytes, bytes])
      for (const { headers } of requests)
        expect([headers.cookie, headers['x-own']]).toEqual(['session=1', undefined])
    },
  )

  // On Node 20 the last of two Set-Cookie won as soon as the parent had set any header.
  const setsAHeader: RequestHandler = (_request, response, next) => {
    response.setHeader('X-Parent', '1')
    next()
  }
  // `on-headers` before 1.1 did this, so a payment that was made behind an older express-session became a 502.
  const setsThemWithTheHead: RequestHandler = (_request, response, next) => {
    const writeHead = response.writeHead.bind(response)
    response.writeHead = (status: number, ...rest: unknown[]) => {
      const [reason, pairs = []] = typeof rest[0] === 'string' ? rest : ['', rest[0]]
      for (const [name, value] of pairs as string[])
        response.setHeader(name as string, value as string)
      response.setHeader('X-Parent', '1')
      return writeHead(status, reason as string)
    }
    next()
  }
  test.each([
    ['sets a header', setsAHeader],
    ['sets fields while the head is written', setsThemWithTheHead],
  ])('keeps every field of an answer, if middleware %s', async (_what, middleware) => {
    const { parent, post } = await mounted(middleware)
    const fields = { 'x-parent': '1', 'x-one': '1', 'set-cookie': ['a=1', 'b=2'] }
    for (const path of ['/checkouts', '/v3/pairs']) {
      const { headers } = await post(path).send(bytes).expect(200, 'answered')
      expect(headers).toMatchObject(fields)
    }
    for (const path of ['/swap/nothing', '/swap/v3/%zz']) {
      const { headers } = await request(parent).get(path)
      expect(headers['content-type']).toBe('application/problem+json')
    }
  })

  test('does not handle requests that are refused for their target', async () => {
    const { requests, urlOf } = await mounted()
    const url = await urlOf()
    for (const target of ['/swap/v3/../admin', '/swap/v3/%2e%2e/admin']) {
      const { answers } = await attack(
        url,
        `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
      )
      expect(answers.map(({ status }) => status)).toEqual([400])
    }
    expect(requests).toEqual([])
  })

  // No event would say that such a request is over, and close() would wait for it.
  test('forgets a client that left before the parent was done with it', async () => {
    const leaving = new AbortController()
    let over = false
    const { gateway, urlOf } = await mounted((_request, response, next) => {
      leaving.abort()
      response.once('close', () => {
        next()
        over = true
      })
    })
    const left = fetch(`${await urlOf()}/v3/pairs`, { signal: leaving.signal })
    await expect(left).rejects.toThrow('aborted')
    await expect.poll(() => over).toBe(true)
    expect(await gateway.metrics()).toContain('quotegate_http_requests_in_flight 0')
  })
})

describe('the client of an app that has no address', () => {
  const sendAndReset = `
    const socket = require('node:net').connect(Number(process.argv[1]), '127.0.0.1', () => {
      socket.write('GET ${quotePath}&other HTTP/1.1\\r\\nHost: g\\r\\nApp-Name: wallet\\r\\n\\r\\n', () => {
        socket.resetAndDestroy()
        process.stdout.write('reset')
      })
    })`

  // It was served as an unknown one, past the cache and past the provider's geolocation.
  test('because it has reset its connection is not served', async () => {
    const { url, requests } = await upstreamWithCookies()
    const { port } = await ownServer((await gatewayOf({ SWAP_BASE_URL: url })).app)
    // With a connection to the provider that is open already, a call goes out as soon as it is made.
    await fetch(`http://127.0.0.1:${port}${quotePath}`, {
      headers: { 'App-Name': 'wallet' },
    })
    expect(requests).toHaveLength(1)
    const client = spawnSync(process.execPath, ['-e', sendAndReset, String(port)], {
      encoding: 'utf8',
    })
    // This process stood still while the client came and went. It accepts the connection after that.
    expect(client.stdout).toBe('reset')
    await setTimeout(300)
    expect(requests).toHaveLength(1)
  })

  test('because it is behind a Unix socket is served', async () => {
    const { url, requests } = await upstreamWithCookies()
    const socketPath = join(tmpdir(), `quotegate-mounted-${process.pid}.sock`)
    const server = createServer((await gatewayOf({ SWAP_BASE_URL: url })).app)
    onTestFinished(() => void server.close())
    await once(server.listen(socketPath), 'listening')
    const sent = httpRequest({
      socketPath,
      path: '/v3/pairs',
      headers: { 'App-Name': 'wallet' },
      agent: false,
    })
    const [answer]: ServerResponse[] = await once(sent.end(), 'response')
    expect(answer?.statusCode).toBe(200)
    expect(requests[0]?.headers.forwarded).toBe('for=unknown')
  })
})
