import { readFileSync } from 'node:fs'

/** What upstreams, the operations listener and the process itself need besides the clients' connections. */
const leftOverLeast = 64
const leftOverPart = 0.25

/**
 * How many clients this process may hold and still have file descriptors for its own work: without one, health
 * checks hang and clients are dropped in silence. Undefined where the system does not tell.
 */
export function connectionsByDescriptors(readLimits = readOwnLimits): number | undefined {
  const descriptors = Number(/^Max open files\s+(\d+)/m.exec(readLimits())?.[1])
  if (Number.isNaN(descriptors)) return undefined
  return Math.max(1, descriptors - Math.max(leftOverLeast, Math.ceil(descriptors * leftOverPart)))
}

function readOwnLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return ''
  }
}
