import type { ServerResponse } from 'node:http'
import type { SettingValue } from '../../../src/config/problems.ts'
import { gatewayTo, recordingUpstream } from '../gateways/between.ts'
import type { Recorded } from '../upstreams/recording-upstream.ts'
import { type Answered, asking, giveQuote, quoteBody } from './quotes.ts'

/** The settings with which clients of several addresses share a quote. */
export const sharedBy = {
  header: { TRUST_PROXY: 'loopback', QUOTE_PARTITION: 'header', QUOTE_PARTITION_HEADER: 'x-country' },
  none: { TRUST_PROXY: 'loopback', QUOTE_PARTITION: 'none' },
} as const

export const refusedAddress = '203.0.113.66'

/** The headers of a client at this address, in one country. */
export const at = (address: string) => [
  'App-Name',
  'wallet',
  'Forwarded',
  `for=${address}`,
  'X-Country',
  'DE',
]

/** A refusal that says to which address it was given. */
export function refuse(response: ServerResponse, status = 403): void {
  response.writeHead(status).end(`refused to ${response.req.headers.forwarded}`)
}

/** What one address was answered: how often with a quote, with its own refusal, with another's. */
export interface Tally {
  quotes: number
  own: number
  others: number
  failed: number
}

export interface LoopOptions {
  settings: Record<string, SettingValue>
  /** Clients that are not refused. Each asks `rounds` times, and then leaves. */
  clients: number
  rounds: number
  pauseMs: number
  callMs: number
  lifeMs: number
}

/** One refused client asks in a loop, without a pause, while others of its country ask for the same quote. */
export async function refusedInALoop(options: LoopOptions) {
  const { settings, clients, rounds, pauseMs, callMs, lifeMs } = options
  const answer = ({ headers }: Recorded, response: ServerResponse) =>
    setTimeout(() => {
      if (headers.forwarded === `for=${refusedAddress}`) refuse(response)
      else giveQuote(response, quoteBody({ expiry: Date.now() + lifeMs }))
    }, callMs)
  const upstream = await recordingUpstream(answer)
  const gateway = await gatewayTo(upstream.url, settings)
  const refused: Tally = { quotes: 0, own: 0, others: 0, failed: 0 }
  const all: Tally = { quotes: 0, own: 0, others: 0, failed: 0 }
  let isOver = false

  async function askOnce(address: string, tally: Tally): Promise<void> {
    const { status, body }: Answered = await asking(gateway.url, '0.1', at(address))
    if (status === 200) tally.quotes += 1
    else if (status !== 403) tally.failed += 1
    else if (body === `refused to for=${address}`) tally.own += 1
    else tally.others += 1
  }

  async function loop(): Promise<void> {
    while (!isOver) await askOnce(refusedAddress, refused)
  }

  async function visit(address: string): Promise<void> {
    for (let round = 0; round < rounds; round += 1) {
      await askOnce(address, all)
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }

  const looping = loop()
  await Promise.all(Array.from({ length: clients }, (_, index) => visit(`198.51.100.${index + 1}`)))
  isOver = true
  await looping
  return { refused, all, calls: upstream.requests.length }
}
