import { readFileSync } from 'node:fs'

const setting = '/proc/sys/net/core/somaxconn'

/**
 * How many connections may wait until they are accepted: the kernel cuts what a listener asks for to this number, without a
 * word. Undefined where the system has no such file.
 */
export function maxListenBacklog(): number | undefined {
  try {
    return Number(readFileSync(setting, 'utf8'))
  } catch {
    return undefined
  }
}
