/**
 * The upstream of every contender. It writes answers straight to the socket, and only the amount of a quote varies, so
 * that it is faster than any contender. Run: node upstream.mjs PORT
 *
 * Quotes of pairs that begin with SLOW take 50 ms and are counted at /calls. A request with X-Echo is answered with its
 * own bytes, head and body, for the check before the timing.
 */
import { createServer } from 'node:net'

const port = Number(process.argv[2])
const slowMs = 50
const quoteBytes = 209
const expiresAtMs = Date.now() + 6 * 3_600_000

const json = (body, { status = '200 OK', more = '' } = {}) =>
  Buffer.from(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n${more}\r\n${body}`,
    'latin1',
  )

function quoteFor(target) {
  const { pathname, searchParams } = new URL(target, 'http://upstream')
  const amount = searchParams.get('amount') ?? ''
  const quote = {
    fromAmount: { assetId: 'ETH', value: amount },
    id: '',
    pairId: pathname.split('/')[3],
    toAmount: { assetId: 'USDC', value: '289.645' },
    expiry: expiresAtMs,
  }
  quote.id = amount.padStart(quoteBytes - JSON.stringify(quote).length, 'f')
  // Contenders that cache by headers use max-age; the gateway uses the quote's own expiry, and compares the Date with it.
  const more = `Cache-Control: public, max-age=3600\r\n${dateLine()}`
  return json(JSON.stringify(quote), { more })
}

let secondOfDate = 0
let dateOfSecond = ''

function dateLine() {
  const second = Math.floor(Date.now() / 1_000)
  if (second !== secondOfDate) dateOfSecond = `Date: ${new Date().toUTCString()}\r\n`
  secondOfDate = second
  return dateOfSecond
}

const checkout = json('{"id":"co_1","state":"open","amount":"10.00","currency":"USD"}')
const created = json('{"id":"co_2","state":"created"}')
const ordered = json(
  '{"id":"or_1","status":"awaiting","pairId":"ETH_USDC","amount":{"assetId":"ETH","value":"0.1"},' +
    '"toAmount":{"assetId":"USDC","value":"289.645"},"payInAddress":"0xpay"}',
  { status: '201 Created' },
)
let slowCalls = 0

function answer(socket, head, body) {
  if (/\r\nx-echo:/i.test(head)) {
    const echoed = Buffer.concat([Buffer.from(head, 'latin1'), body])
    socket.write(json(echoed.toString('latin1')))
    return
  }
  const target = head.slice(
    head.indexOf(' ') + 1,
    head.indexOf(' ', head.indexOf(' ') + 1),
  )
  if (target.startsWith('/v3/pairs/SLOW')) {
    slowCalls += 1
    const slow = quoteFor(target)
    setTimeout(() => socket.write(slow), slowMs)
  } else if (target.startsWith('/v3/pairs/')) socket.write(quoteFor(target))
  else if (target === '/calls') socket.write(json(JSON.stringify({ slowCalls })))
  else if (target === '/v3/orders/float') socket.write(ordered)
  else socket.write(head.startsWith('POST') ? created : checkout)
}

function serve(socket) {
  let waiting = Buffer.alloc(0)
  let head = ''
  let bodyLeft = 0
  let body = []
  socket.setNoDelay(true)
  socket.on('error', () => socket.destroy())
  socket.on('data', (chunk) => {
    let bytes = waiting.length === 0 ? chunk : Buffer.concat([waiting, chunk])
    waiting = Buffer.alloc(0)
    while (bytes.length > 0) {
      if (head === '') {
        const end = bytes.indexOf('\r\n\r\n')
        if (end === -1) {
          waiting = bytes
          return
        }
        head = bytes.latin1Slice(0, end + 4)
        bytes = bytes.subarray(end + 4)
        const length = /\r\ncontent-length: *(\d+)/i.exec(head)
        if (length === null && /\r\ntransfer-encoding:/i.test(head)) {
          socket.end(
            'HTTP/1.1 501 This upstream wants lengths\r\nContent-Length: 0\r\n\r\n',
          )
          return
        }
        bodyLeft = length === null ? 0 : Number(length[1])
        body = []
      }
      const part = bytes.subarray(0, bodyLeft)
      bytes = bytes.subarray(part.length)
      bodyLeft -= part.length
      body.push(part)
      if (bodyLeft > 0) return
      answer(socket, head, Buffer.concat(body))
      head = ''
    }
  })
}

createServer(serve).listen(port, '127.0.0.1', 4_096, () =>
  process.stdout.write('ready\n'),
)
