import type { RawRequest } from './raw-client.ts'
import type { Launch } from './server-process.ts'

/** What a contender takes part in: cached quotes, pass-through, or a cold key shared by many. */
export type Skill = 'hit' | 'pass' | 'cold'

export interface Setting {
  port: number
  /** Of the gateway's operations listener. */
  operationsPort: number
  upstreamPort: number
  /** The contender's own, for its files. */
  directory: string
  /** Holds the body that a constant server answers with. */
  answerFile: string
  /** The built gateway. */
  program: string
}

export interface Contender {
  name: string
  skills: readonly Skill[]
  /** A program that has to be installed. */
  needs?: string
  launch(setting: Setting): Launch
  /** Headers that a cached quote of its must carry, with what must stand in them. */
  hitHeaders: Record<string, RegExp>
}

export const appHeaders = { 'App-Name': 'bench', 'User-Agent': 'bench/1.0' }
export const appHeaderLines = Object.entries(appHeaders).map(([name, value]) => `${name}: ${value}`)
export const quoteTarget = '/v3/pairs/ETH_USDC/quotes?amount=0.1'
export const quoteProbe: RawRequest = { target: quoteTarget, headers: appHeaderLines }
export const passTarget = '/checkouts/co_1'

export const json = { 'content-type': /^application\/json/ }

/** As `npm start` starts it: metrics, checks and limits on, logging at warn. */
export function gateway(name: string, settings: Record<string, string> = {}): Contender {
  return {
    name,
    skills: ['hit', 'pass', 'cold'],
    hitHeaders: {
      ...json,
      'cache-status': /^quotegate; hit; ttl=\d+$/,
      'cache-control': /^private, max-age=\d+$/,
      'x-request-id': /^[0-9a-f-]{36}$/,
    },
    launch: ({ port, operationsPort, upstreamPort, program }) => ({
      command: process.execPath,
      arguments: [program],
      environment: {
        NODE_ENV: 'production',
        PORT: String(port),
        ADMIN_PORT: String(operationsPort),
        SWAP_BASE_URL: `http://127.0.0.1:${upstreamPort}`,
        PAYMENTS_BASE_URL: `http://127.0.0.1:${upstreamPort}`,
        DRAIN_DELAY_MS: '0',
        LOG_LEVEL: 'warn',
        ...settings,
      },
    }),
  }
}

export const gatewayName = 'quotegate'
