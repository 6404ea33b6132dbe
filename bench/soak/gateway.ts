/** The gateway of a soak, in a process of its own so that its memory is its own. Run with --expose-gc. */
import { createGateway } from '../../src/gateway/gateway.ts'

export type Ask = 'memory' | 'close'

export interface Memory {
  residentBytes: number
  /** What is left after a forced collection, buffers outside the heap included. */
  keptBytes: number
}

export type Told =
  | { listening: string }
  | { memory: Memory }
  /** What still keeps the process alive, its channel to the soak aside. */
  | { closed: string[] }

function tell(told: Told): void {
  process.send?.(told)
}

function memory(): Memory {
  for (let count = 0; count < 2; count += 1) (globalThis as { gc?: () => void }).gc?.()
  const { heapUsed, external, rss } = process.memoryUsage()
  return { residentBytes: rss, keptBytes: heapUsed + external }
}

const gateway = await createGateway(JSON.parse(process.argv[2] ?? '{}'))

process.on('message', async (ask: Ask) => {
  if (ask === 'memory') return tell({ memory: memory() })
  await gateway.close()
  // Handles that were destroyed are only gone once the loop has turned.
  await new Promise((resolve) => setTimeout(resolve, 100))
  tell({ closed: process.getActiveResourcesInfo().filter((resource) => resource !== 'PipeWrap') })
  process.disconnect()
})
const { trafficUrl } = await gateway.listen()
tell({ listening: trafficUrl })
