/** The gateway of a soak, in its own process, so that the memory of that process is the gateway's. Run with --expose-gc. */
import { createGateway } from '../../src/gateway/gateway.ts'

export type Ask = 'memory' | 'close'

export interface Memory {
  residentBytes: number
  /** Memory after a forced collection, with the buffers outside the heap. */
  keptBytes: number
}

export type Report =
  | { listening: string }
  | { memory: Memory }
  /** Resources that still keep the process alive, except for its channel to the soak. */
  | { closed: string[] }

function send(report: Report): void {
  process.send?.(report)
}

function memory(): Memory {
  for (let count = 0; count < 2; count += 1) (globalThis as { gc?: () => void }).gc?.()
  const { heapUsed, external, rss } = process.memoryUsage()
  return { residentBytes: rss, keptBytes: heapUsed + external }
}

const [settings = '{}', limits = '{}'] = process.argv.slice(2)
const gateway = await createGateway(JSON.parse(settings), { limits: JSON.parse(limits) })

process.on('message', async (ask: Ask) => {
  if (ask === 'memory') return send({ memory: memory() })
  await gateway.close()
  // Destroyed handles are listed until the event loop has run again.
  await new Promise((resolve) => setTimeout(resolve, 100))
  send({
    closed: process
      .getActiveResourcesInfo()
      .filter((resource) => resource !== 'PipeWrap'),
  })
  process.disconnect()
})
const { trafficUrl } = await gateway.listen()
send({ listening: trafficUrl })
