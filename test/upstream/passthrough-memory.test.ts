import { createHash } from 'node:crypto'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { describe, expect, test } from 'vitest'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startGatewayProcess } from '../support/gateways/gateway-process.ts'

const mebibyte = 1024 * 1024
// A third of what passes; Node 24 leaves more garbage lying about than 20 and 26 do.
const growthMost = 64 * mebibyte
const piece = createHash('sha512').update('noise').digest()
const block = Buffer.concat(Array.from({ length: 1024 }, () => piece))

function* blocks(mebibytes: number): Generator<Buffer> {
  for (let sent = 0; sent < mebibytes * mebibyte; sent += block.length) yield block
}

function digestOf(mebibytes: number): string {
  const hash = createHash('sha256')
  for (const part of blocks(mebibytes)) hash.update(part)
  return hash.digest('hex')
}

async function digestOfStream(stream: IncomingMessage): Promise<string> {
  const hash = createHash('sha256')
  for await (const part of stream) hash.update(part as Buffer)
  return hash.digest('hex')
}

/** Sends a body and answers with what came back for it. */
async function exchange(
  url: string,
  options: { send?: number; length: boolean; path: string },
): Promise<string> {
  const { send = 0, length, path } = options
  const request = httpRequest(new URL(path, url), { method: send > 0 ? 'POST' : 'GET', agent: false })
  if (length && send > 0) request.setHeader('Content-Length', send * mebibyte)
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    request.on('response', resolve)
    request.on('error', reject)
  })
  await pipeline(blocks(send), request)
  return digestOfStream(await answered)
}

describe('192 MiB', () => {
  test.each([
    ['up, with a stated length', 'up', true],
    ['up, in chunks', 'up', false],
    ['down, with a stated length', 'down', true],
    ['down, in chunks', 'down', false],
  ])('%s pass unchanged and in constant memory', async (what, direction, length) => {
    const upstream = await recordingUpstream(undefined, {
      listener: async (request, response) => {
        const mebibytes = Number(new URL(request.url ?? '', 'http://u').searchParams.get('mebibytes'))
        if (direction === 'up') {
          response.end(await digestOfStream(request))
          return
        }
        if (length) response.setHeader('Content-Length', mebibytes * mebibyte)
        await pipeline(blocks(mebibytes), response)
      },
    })
    const gateway = await startGatewayProcess({
      SWAP_BASE_URL: upstream.url,
      PAYMENTS_BASE_URL: upstream.url,
    })
    const send = async (mebibytes: number) => {
      const path = `/checkouts?mebibytes=${mebibytes}`
      const got = await exchange(gateway.url, {
        path,
        length,
        ...(direction === 'up' ? { send: mebibytes } : {}),
      })
      const sent = digestOf(mebibytes)
      expect(got).toBe(direction === 'up' ? createHash('sha256').update(sent).digest('hex') : sent)
    }
    // Node lets about 64 MiB of read buffers become garbage before it clears them away. A body of that size
    // goes first, so that what is measured is only what grows with the bytes that pass.
    const atStart = gateway.residentBytes()
    await send(64)
    const first = gateway.peakBytes() - atStart
    gateway.forgetPeak()
    const before = gateway.residentBytes()
    await send(192)
    const growth = gateway.peakBytes() - before
    const shown = [first, growth].map((bytes) => (bytes / mebibyte).toFixed(1))
    process.stdout.write(
      `64 MiB ${what}: peak memory grew by ${shown[0]} MiB, by ${shown[1]} MiB with 192 more\n`,
    )
    expect(growth).toBeLessThan(growthMost)
  })
})
