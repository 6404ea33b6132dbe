/** Work beside the hits, until SIGTERM. Run: node --import tsx noise.ts scrape|evictions|pass PORT OPERATIONS-PORT */
import { appHeaderLines, passTarget } from '../contenders/contender.ts'
import { RawConnection, requestText } from '../harness/raw-client.ts'

const [kind = '', port = '', operationsPort = ''] = process.argv.slice(2)

interface Noise {
  port: number
  perSecond: number
  target(time: number): string
}

const noises: Record<string, Noise> = {
  scrape: { port: Number(operationsPort), perSecond: 5, target: () => '/metrics' },
  // Fresh amounts: each is a miss, and pushes out another quote.
  evictions: {
    port: Number(port),
    perSecond: 500,
    target: (time) => `/v3/pairs/ETH_USDC/quotes?amount=${time}.${process.pid}${Date.now()}`,
  },
  pass: { port: Number(port), perSecond: 200, target: () => passTarget },
}

const noise = noises[kind]
if (noise === undefined) throw new Error(`no such noise: ${kind}`)
const { perSecond, target } = noise
const idle = await Promise.all(Array.from({ length: 32 }, () => RawConnection.open(noise.port)))
let asked = 0
let answered = 0
const beganMs = performance.now()

async function ask(): Promise<void> {
  const connection = idle.pop()
  // All are waiting: the server is behind, and more would only queue.
  if (connection === undefined) return
  asked += 1
  const { status } = await connection.ask(requestText({ target: target(asked), headers: appHeaderLines }))
  if (status !== 200) throw new Error(`${kind}: status ${status}`)
  answered += 1
  idle.push(connection)
}

const timer = setInterval(() => {
  const due = Math.floor(((performance.now() - beganMs) / 1_000) * perSecond) - asked
  for (let left = Math.min(due, idle.length); left > 0; left -= 1) ask().catch(fail)
}, 5)

function fail(error: unknown): void {
  process.stderr.write(`${error}\n`)
  process.exit(1)
}

process.on('SIGTERM', () => {
  clearInterval(timer)
  process.stdout.write(`done ${answered}\n`, () => process.exit(0))
})
process.stdout.write('began\n')
