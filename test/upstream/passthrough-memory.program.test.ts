import { createHash } from 'node:crypto'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { expect, test } from 'vitest'
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

/** The SHA-256 of what came back, for a body of so many MiB or for none. */
async function exchange(
  url: string,
  { sendMebibytes, path }: { sendMebibytes: number; path: string },
) {
  const method = sendMebibytes > 0 ? 'POST' : 'GET'
  const request = httpRequest(new URL(path, url), { method, agent: false })
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    request.on('response', resolve)
    request.on('error', reject)
  })
  await pipeline(blocks(sendMebibytes), request)
  return digestOfStream(await answered)
}

test.each(['up, in chunks', 'down, with a stated length'])(
  '192 MiB %s pass unchanged and in constant memory',
  async (what) => {
    const isUp = what.startsWith('up')
    const upstream = await recordingUpstream(undefined, {
      listener: async (request, response) => {
        if (isUp) return void response.end(await digestOfStream(request))
        const mebibytes = Number(request.url?.split('=')[1])
        response.setHeader('Content-Length', mebibytes * mebibyte)
        await pipeline(blocks(mebibytes), response)
      },
    })
    const urls = { SWAP_BASE_URL: upstream.url, PAYMENTS_BASE_URL: upstream.url }
    const gateway = await startGatewayProcess(urls)
    const send = async (mebibytes: number) => {
      const path = `/checkouts?mebibytes=${mebibytes}`
      const got = await exchange(gateway.url, {
        path,
        sendMebibytes: isUp ? mebibytes : 0,
      })
      const sent = digestOf(mebibytes)
      expect(got).toBe(isUp ? createHash('sha256').update(sent).digest('hex') : sent)
    }
    // Node lets about 64 MiB of read buffers become garbage before it clears them away. A body of that size
    // goes first, so that what is measured is only what grows with the bytes that pass.
    await send(64)
    gateway.forgetPeak()
    const before = gateway.residentBytes()
    await send(192)
    const growth = gateway.peakBytes() - before
    process.stdout.write(
      `192 MiB ${what}: peak memory grew by ${(growth / mebibyte).toFixed(1)} MiB\n`,
    )
    expect(growth).toBeLessThan(growthMost)
  },
)
