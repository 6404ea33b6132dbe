import type { IncomingMessage } from 'node:http'
import { Refusal } from './answer.ts'

export const maxKeptBytes = 1024 * 1024
const maxNesting = 64

interface KeptBody {
  bytes: Buffer
  isWhole: boolean
}

const keptBodies = new WeakMap<IncomingMessage, KeptBody>()

/** Reads the body to its end and keeps the first MiB. Resolves to false if the client left before the end. */
export async function readBody(request: IncomingMessage): Promise<boolean> {
  const chunks: Buffer[] = []
  let receivedBytes = 0
  let isEnded = true
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      // Chunks past the bound are read too: a client that is still writing would miss the 413.
      if (receivedBytes < maxKeptBytes) chunks.push(chunk.subarray(0, maxKeptBytes - receivedBytes))
      receivedBytes += chunk.length
    }
  } catch {
    isEnded = false
  }
  keptBodies.set(request, { bytes: Buffer.concat(chunks), isWhole: receivedBytes <= maxKeptBytes })
  return isEnded
}

export function bodyBytes(request: IncomingMessage): Buffer {
  return keptBodies.get(request)?.bytes ?? Buffer.alloc(0)
}

export function bodyAsJsonObject(request: IncomingMessage): Record<string, unknown> {
  const body = keptBodies.get(request)
  if (body !== undefined && !body.isWhole) {
    throw new Refusal(413, 'BODY_TOO_LARGE', `the sandbox reads at most ${maxKeptBytes} bytes`)
  }
  const value = parseJson(bodyBytes(request).toString('utf8'))
  if (!isObject(value)) throw new Refusal(400, 'MALFORMED_BODY', 'the body must be a JSON object')
  // JSON.parse accepts any depth, but JSON.stringify recurses: the answer would overflow the stack.
  if (isDeeperThan(value, maxNesting)) {
    throw new Refusal(400, 'MALFORMED_BODY', `the body is nested more than ${maxNesting} deep`)
  }
  return value
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1))
}
