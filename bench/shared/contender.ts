import type { Launch } from './server-process.ts'

/** What a contender takes part in: cached quotes, pass-through, or quotes that it has to fetch first. */
export type Skill = 'hit' | 'pass' | 'fetch'

export interface Setting {
  port: number
  /** Of the gateway's operations listener. */
  operationsPort: number
  upstreamPort: number
  /** For the contender's files. */
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
  /** The gateway's program, if it is not that of the run. */
  build?: string | undefined
  /** Headers that its cached quotes must have, and what their values must match. */
  hitHeaders: Record<string, RegExp>
}

export const jsonHeader = { 'content-type': /^application\/json/ }

interface GatewayOptions {
  settings?: Record<string, string>
  /** The program of another build. */
  build?: string | undefined
  /** The binary of another version of Node. */
  node?: string | undefined
}

/** As `npm start` starts it: metrics, checks and limits on, logging at warn. The backend is a trusted proxy. */
export function gateway(
  name: string,
  { settings = {}, build, node = process.execPath }: GatewayOptions = {},
): Contender {
  return {
    name,
    build,
    skills: ['hit', 'pass', 'fetch'],
    hitHeaders: {
      ...jsonHeader,
      'cache-status': /^quotegate; hit; ttl=\d+$/,
      'cache-control': /^private, max-age=\d+$/,
      'x-request-id': /^[0-9a-f-]{36}$/,
    },
    launch: ({ port, operationsPort, upstreamPort, program }) => ({
      command: node,
      arguments: [build ?? program],
      environment: {
        NODE_ENV: 'production',
        PORT: String(port),
        ADMIN_PORT: String(operationsPort),
        SWAP_BASE_URL: `http://127.0.0.1:${upstreamPort}`,
        PAYMENTS_BASE_URL: `http://127.0.0.1:${upstreamPort}`,
        TRUST_PROXY: 'loopback',
        DRAIN_DELAY_MS: '0',
        LOG_LEVEL: 'warn',
        ...settings,
      },
    }),
  }
}

export const gatewayName = 'quotegate'
