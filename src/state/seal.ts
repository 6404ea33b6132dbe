import { crc32 } from 'node:zlib'

const checksumDigits = 7

/**
 * The checksum is of the key too: a flipped byte in a key would make one record another. The key is the checksum's start
 * value, as a hash that any single change of the key changes.
 */
function checksumOf(key: string, json: string): number {
  let start = 0
  for (let index = 0; index < key.length; index += 1)
    start = Math.imul(start ^ key.charCodeAt(index), 0x01000193)
  return crc32(json, start >>> 0)
}

export function seal(key: string, json: string): string {
  return checksumOf(key, json).toString(36).padStart(checksumDigits, '0') + json
}

/** Undefined: the checksum is wrong. */
export function unseal(key: string, value: string): unknown {
  const json = value.slice(checksumDigits)
  // Compared as numbers, because writing one takes as long as the checksum itself.
  const stated = Number.parseInt(value.slice(0, checksumDigits), 36)
  return checksumOf(key, json) === stated ? JSON.parse(json) : undefined
}
