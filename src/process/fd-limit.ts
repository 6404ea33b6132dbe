import { readFileSync } from 'node:fs'

/** File descriptors kept for upstreams, the operations listener and the process itself. */
const minReserved = 64
const reservedShare = 0.25

/**
 * Max client connections that the file-descriptor limit allows. Past it the process could not open what it needs
 * itself: health checks would hang and clients would be dropped silently. Undefined where the system has no
 * /proc/self/limits.
 */
export function maxClientConnections(readLimits = readOwnLimits): number | undefined {
  const descriptors = Number(/^Max open files\s+(\d+)/m.exec(readLimits())?.[1])
  if (Number.isNaN(descriptors)) return undefined
  return Math.max(1, descriptors - Math.max(minReserved, Math.ceil(descriptors * reservedShare)))
}

function readOwnLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return ''
  }
}
