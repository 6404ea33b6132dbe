import { expect } from 'vitest'
import type { SettingValue } from '../../../src/config/problems.ts'
import type { GatewayOverrides } from '../../../src/gateway/types.ts'
import { asIfKilled, newFolder } from '../../journal/disk-support.ts'
import { type GivenQuote, type Post, post } from '../clients/orders.ts'
import { ask, createTestClock, giveQuote, quoteBody } from '../clients/quotes.ts'
import { type ParsedAnswer, rawExchange } from '../clients/raw-connection.ts'
import { gatewayWith, pause, recordingUpstream } from './between.ts'
import type { RunningGateway } from './gateway.ts'

export interface StartedGateway extends RunningGateway {
  quote(amount?: string): Promise<GivenQuote>
  order(body: object, options?: Post): Promise<ParsedAnswer>
  state(): Promise<Record<string, number>>
  /** Resolves once all that was noted is in the folder. */
  written(): Promise<void>
}

/**
 * Gateways that follow each other over one folder, before a provider that remembers what reached it. Their wall clock
 * stands still until it is set.
 */
export async function restartStage(settings: Record<string, SettingValue> = {}) {
  const clock = createTestClock()
  const provider = {
    offsetMs: 0,
    lifeMs: 30_000,
    quote: {} as Record<string, unknown>,
  }
  const nowMs = () => clock.nowMs() + provider.offsetMs
  const upstream = await recordingUpstream((request, response) => {
    const date = new Date(nowMs()).toUTCString()
    if (request.method === 'GET') {
      giveQuote(response, quoteBody({ expiry: nowMs() + provider.lifeMs, ...provider.quote }), ['Date', date])
      return
    }
    response.sendDate = false
    response.writeHead(201, { 'Content-Type': 'application/json', Date: date }).end('{"id":"order-1"}')
  })
  let folder = newFolder()

  async function start(overrides: Partial<GatewayOverrides> = {}, more: Record<string, SettingValue> = {}) {
    const gateway = await gatewayWith(
      { SWAP_BASE_URL: upstream.url, STATE_DIRECTORY: folder, ...settings, ...more },
      { clock, ...overrides },
    )
    const state = async () => {
      const status = await fetch(`${gateway.operationsUrl}/status`)
      return ((await status.json()) as { journal: { disk: Record<string, number> } }).journal.disk
    }
    return {
      ...gateway,
      async quote(amount = '0.1') {
        const { status, body } = await ask(gateway.url, {
          path: `/v3/pairs/ETH_USDC/quotes?amount=${amount}`,
        })
        expect(status).toBe(200)
        return JSON.parse(Buffer.from(body, 'latin1').toString())
      },
      order: (body, options) => rawExchange(gateway.url, post(JSON.stringify(body), options)),
      state,
      async written() {
        while ((await state()).waiting !== 0) await pause(20)
      },
    } satisfies StartedGateway as StartedGateway
  }

  return {
    clock,
    provider,
    upstream,
    start,
    get folder() {
      return folder
    },
    /** What reached the provider besides quote calls. */
    arrived: () => upstream.requests.filter(({ method }) => method !== 'GET'),
    /** The next gateway finds the folder as kill -9 would leave it now. */
    async kill(gateway: StartedGateway): Promise<void> {
      await gateway.written()
      folder = asIfKilled(folder)
    },
  }
}
