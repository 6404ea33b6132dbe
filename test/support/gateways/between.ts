import { createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { systemClock } from '../../../src/clock.ts'
import type { SettingValue } from '../../../src/config/problems.ts'
import type { GatewayOverrides } from '../../../src/gateway/types.ts'
import { listening } from '../machine/listening.ts'
import { VirtualTime } from '../machine/virtual-time.ts'
import {
  type RecordingUpstream,
  startRecordingUpstream,
} from '../upstreams/recording-upstream.ts'
import { type RunningGateway, startGateway } from './gateway.ts'

/** Parts of a test that end with it. */
export async function recordingUpstream(
  ...parameters: Parameters<typeof startRecordingUpstream>
): Promise<RecordingUpstream> {
  const upstream = await startRecordingUpstream(...parameters)
  onTestFinished(() => upstream.close())
  return upstream
}

/** An upstream that is nothing but a socket: it sends exactly the bytes that the test gives it. */
export async function rawUpstream(onRequest: (socket: Socket, received: Buffer) => void) {
  /** Everything received, one Buffer a connection. */
  const received: Buffer[] = []
  const server = createServer((socket) => {
    const index = received.push(Buffer.alloc(0)) - 1
    socket.on('error', () => {})
    let answered = false
    socket.on('data', (chunk) => {
      const all = Buffer.concat([received[index] as Buffer, chunk])
      received[index] = all
      if (answered || !all.includes('\r\n\r\n')) return
      answered = true
      onRequest(socket, all)
    })
  })
  return { ...(await listening(server)), received }
}

type Settings = Record<string, SettingValue | undefined>

export async function gatewayWith(
  settings: Settings = {},
  overrides: GatewayOverrides = {},
): Promise<RunningGateway> {
  const gateway = await startGateway(settings, overrides)
  onTestFinished(() => gateway.close())
  return gateway
}

/** A gateway with one upstream for everything. */
export function gatewayTo(
  upstreamUrl: string,
  settings: Settings = {},
  overrides: GatewayOverrides = {},
) {
  const urls = { SWAP_BASE_URL: upstreamUrl, PAYMENTS_BASE_URL: upstreamUrl }
  return gatewayWith({ ...urls, ...settings }, overrides)
}

/** A gateway in front of an upstream that answers so, or `ok`. */
export async function recordedGateway(
  settings: Settings = {},
  answer?: Parameters<typeof startRecordingUpstream>[0],
) {
  const upstream = await recordingUpstream(answer)
  return { upstream, gateway: await gatewayTo(upstream.url, settings) }
}

/** A gateway whose deadlines and breakers go by a time that stands still until the test lets it pass. */
export async function gatewayInVirtualTime(upstreamUrl: string, settings: Settings = {}) {
  const timers = new VirtualTime()
  return {
    gateway: await gatewayTo(upstreamUrl, settings, {
      clock: { ...systemClock, timers },
    }),
    timers,
  }
}

/** Waits for something that has no event of its own. */
export async function until(
  holds: () => boolean,
  what: string,
  withinMs = 60_000,
): Promise<void> {
  const deadline = performance.now() + withinMs
  while (!holds()) {
    if (performance.now() > deadline)
      throw new Error(`still waiting after ${withinMs} ms: ${what}`)
    await pause(5)
  }
}

/** Between two failures: a breaker opens only if the first failure in a row is a second old. */
export function aSecond(): Promise<void> {
  return pause(1_050)
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
