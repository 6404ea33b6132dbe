/**
 * Requests beside the hits, until SIGTERM. Run: node noise.mjs PORT PER-SECOND TARGET [HEADER-LINE...]
 * A * in the target is replaced by a new number each time.
 *
 * This program shares a core with the load generator, and the time that it takes there lengthens the measured waits. So
 * it uses no HTTP client and no promises, and spreads its requests evenly: a burst would queue.
 */
import { connect } from 'node:net'

const [port = '', perSecond = '', target = '', ...headerLines] = process.argv.slice(2)
const maxConnections = 32
const headEnd = Buffer.from('\r\n\r\n')
// Differs between runs, and has at most as many digits as a real amount.
const unique = Date.now() % 1e9
const idle = []
let asked = 0
let answered = 0

function fail(reason) {
  process.stderr.write(`${target}: ${reason}\n`)
  process.exit(1)
}

/** How many bytes of the answer are still missing; undefined while the head is not complete. */
function bytesToCome(bytes) {
  const bodyAt = bytes.indexOf(headEnd) + headEnd.length
  if (bodyAt < headEnd.length) return undefined
  const head = bytes.latin1Slice(0, bodyAt)
  if (!head.startsWith('HTTP/1.1 200 ')) fail(head)
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)
  if (length === null) fail(`no length: ${head}`)
  return Number(length[1]) - (bytes.length - bodyAt)
}

function open() {
  const socket = connect(Number(port), '127.0.0.1')
  let begun = Buffer.alloc(0)
  let toCome
  socket.setNoDelay(true)
  socket.on('connect', () => idle.push(socket))
  socket.on('error', fail)
  socket.on('close', () => {
    const at = idle.indexOf(socket)
    if (at < 0) fail('the connection was closed')
    // The server closed an idle connection, as Node does after five seconds with those of the scrapes.
    idle.splice(at, 1)
    open()
  })
  socket.on('data', (chunk) => {
    if (toCome === undefined) {
      begun = begun.length === 0 ? chunk : Buffer.concat([begun, chunk])
      toCome = bytesToCome(begun)
      if (toCome === undefined) return
    } else toCome -= chunk.length
    if (toCome > 0) return
    begun = Buffer.alloc(0)
    toCome = undefined
    answered += 1
    idle.push(socket)
  })
}

function ask(socket) {
  asked += 1
  const line = `GET ${target.replace('*', `${asked}.${unique}`)} HTTP/1.1`
  socket.write([line, 'Host: 127.0.0.1', ...headerLines, '', ''].join('\r\n'))
}

for (let count = 0; count < maxConnections; count += 1) open()
const beganMs = performance.now()
const timer = setInterval(() => {
  const due = Math.floor(((performance.now() - beganMs) / 1_000) * Number(perSecond)) - asked
  // Without an idle connection the server is behind, and more requests would only queue. At most two at a time spread
  // the requests that a late timer has missed.
  for (let left = Math.min(due, idle.length, 2); left > 0; left -= 1) ask(idle.pop())
}, 1_000 / Number(perSecond))

process.on('SIGTERM', () => {
  clearInterval(timer)
  process.stdout.write(`done ${answered}\n`, () => process.exit(0))
})
process.stdout.write('began\n')
