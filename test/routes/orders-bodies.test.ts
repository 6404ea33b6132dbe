import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { orderStage, post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import {
  type ParsedAnswer,
  RawConnection,
  valuesOf,
} from '../support/clients/raw-connection.ts'

const most = 65_536
const plain = '{"pairId":"ETH_USDC","fromAmount":0.1}'
const chunked = ['App-Name: wallet', 'Transfer-Encoding: chunked']
const inChunks = (bytes: Buffer, size: number) =>
  Buffer.concat([
    ...Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => {
      const part = bytes.subarray(index * size, (index + 1) * size)
      return Buffer.concat([
        Buffer.from(`${part.length.toString(16)}\r\n`),
        part,
        Buffer.from('\r\n'),
      ])
    }),
    Buffer.from('0\r\n\r\n'),
  ])
/** A JSON object of exactly so many bytes. */
const ofBytes = (count: number) => `{"a":"${'x'.repeat(count - 8)}"}`

describe('the bytes of an order', () => {
  it.each([
    ['odd spacing', ' \r\n\t{ "pairId"\n:"ETH_USDC" ,\r\n"fromAmount": 0.1\t}\n\n'],
    [
      'digits that a double would lose',
      '{"fromAmount":0.1000000000000000055,"big":12345678901234567890}',
    ],
    [
      'characters of every length, escaped and not',
      '{"note":"äß€😀\\u00e4\\ud83d\\ude00\\/\\u0000","é":1}',
    ],
    [
      'lone surrogates, and keys in their order',
      '{"note":"\\ud800","b":1,"a":2,"10":3,"9":4}',
    ],
    [
      'keys with a meaning in JavaScript',
      '{"__proto__":{"pairId":"X"},"constructor":{"prototype":{}}}',
    ],
  ])(
    'are sent unchanged, with a length and in chunks of one byte: %s',
    async (_what, body) => {
      const { arrived, order } = await orderStage()
      expect((await order(body)).status).toBe(201)
      expect(
        (await order(inChunks(Buffer.from(body), 1), { headers: chunked })).status,
      ).toBe(201)
      expect(arrived().map((request) => request.body.toString())).toEqual([body, body])
    },
  )

  it.each([
    ['Content-Type', 'text/plain'],
    ['Content-Type', undefined],
    ['Content-Encoding', 'Identity'],
    ['Content-Encoding', ''],
  ])('are judged with the %s %j', async (name, value) => {
    const { arrived, order, quote } = await orderStage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    await quote()
    const headers = [
      'App-Name: wallet',
      ...(value === undefined ? [] : [`${name}: ${value}`]),
    ]
    expect((await order(plain, { headers })).status).toBe(201)
    expect(arrived()[0]?.headers[name.toLowerCase()]).toBe(value)
  })

  it.each([
    ['with a length', (body: string) => post(body)],
    [
      'in chunks',
      (body: string) => post(inChunks(Buffer.from(body), 10_000), { headers: chunked }),
    ],
  ])('are at most 65,536, %s', async (_how, request) => {
    const { arrived, gateway } = await orderStage()
    const client = new RawConnection(gateway.url, request(ofBytes(most)))
    expect((await client.answer()).status).toBe(201)
    expect(arrived()[0]?.body.length).toBe(most)
    client.write(request(ofBytes(most + 1)))
    expectProblem(await client.answer(), 413, 'order-too-large')
    expect(arrived()).toHaveLength(1)
  })
})

describe('an order that cannot be read', () => {
  const levels = (count: number) =>
    `{"a":${'['.repeat(count - 1)}${']'.repeat(count - 1)}}`

  // One of each kind: test/orders/order-terms.test.ts has the rest.
  it.each<[what: string, body: string | Buffer, detail: RegExp]>([
    ['is empty', '', /empty/],
    ['breaks off', plain.slice(0, -1), /not valid JSON/],
    ['is an array', `[${plain}]`, /not a JSON object/],
    [
      'has a key twice in two spellings',
      '{"fromAmount":0.1,"from\\u0041mount":0.2}',
      /same key twice/,
    ],
    ['is 33 levels deep', levels(33), /32 levels/],
    ['begins with a byte order mark', `\ufeff${plain}`, /byte order mark/],
    ['is not UTF-8', Buffer.from('{"note":"\xff"}', 'latin1'), /UTF-8/],
  ])(
    'because it %s, is refused, and the connection stays open',
    async (_what, body, detail) => {
      const { arrived, gateway } = await orderStage()
      const client = new RawConnection(gateway.url, post(body))
      expect(expectProblem(await client.answer(), 400, 'bad-order').detail).toMatch(
        detail,
      )
      expect(arrived()).toHaveLength(0)
      client.write(post(levels(32)))
      expect((await client.answer()).status).toBe(201)
    },
  )

  it.each(['gzip', 'identity, gzip', 'x-unheard-of'])(
    'because of its content coding %s, is answered 415 with the accepted coding, and the connection stays open',
    async (coding) => {
      const { arrived, gateway } = await orderStage()
      const client = new RawConnection(gateway.url)
      client.write(post(gzipSync(plain), { headers: [`Content-Encoding: ${coding}`] }))
      const answer = await client.answer()
      expectProblem(answer, 415, 'content-coding')
      expect(valuesOf(answer.rawHeaders, 'accept-encoding')).toEqual(['identity'])
      expect(arrived()).toHaveLength(0)
      client.write(post(plain))
      expect((await client.answer()).status).toBe(201)
    },
  )
})

describe('an order of more than 65,536 bytes', () => {
  const huge = Buffer.alloc(8_000_000, 'x')

  it.each([
    [
      'with a length, of which it sends nothing',
      post('', { headers: [`Content-Length: ${most + 1}`] }),
      413,
    ],
    ['with a length', post(huge), 413],
    ['in chunks', post(inChunks(huge, 60_000), { headers: chunked }), 413],
    [
      'refused for another reason',
      post(huge, { path: '/v3/orders', headers: ['Via: 1.1 quotegate'] }),
      508,
    ],
  ])(
    'gets its whole answer though it is sent to its end first, %s',
    async (_how, bytes, status) => {
      const { arrived, gateway } = await orderStage()
      const client = new RawConnection(gateway.url)
      client.socket.pause()
      // The next piece only once this one has gone: a peer that does not read stops it.
      for await (const piece of Readable.from(pieces(bytes))) {
        await new Promise<void>((resolve) => client.socket.write(piece, () => resolve()))
      }
      client.socket.resume()
      expectClosing(await client.answer(), status)
      await client.closed()
      expect(client.error).toBeUndefined()
      expect(arrived()).toHaveLength(0)
    },
  )
})

function* pieces(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += 100_000)
    yield bytes.subarray(at, at + 100_000)
}

function expectClosing(answer: ParsedAnswer, status = 413): void {
  expectProblem(answer, status, status === 413 ? 'order-too-large' : 'loop-detected')
  expect(answer.whole).toBe(true)
  expect(valuesOf(answer.rawHeaders, 'connection')).toEqual(['close'])
}
