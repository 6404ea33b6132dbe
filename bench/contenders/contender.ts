import { join } from 'node:path'
import { benchDirectory, installedVersion } from '../harness/machine.ts'
import type { RawRequest } from '../harness/raw-client.ts'
import type { Launch } from '../harness/server-process.ts'
import { haproxyConfig, nginxConfig, varnishConfig } from './configurations.ts'

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

const json = { 'content-type': /^application\/json/ }

function script(name: string, skills: readonly Skill[]): Contender {
  return {
    name,
    skills,
    hitHeaders: json,
    launch: ({ port, upstreamPort, answerFile }) => ({
      command: process.execPath,
      arguments: [
        join(benchDirectory, 'contenders', `${fileNames[name]}.mjs`),
        String(port),
        String(upstreamPort),
        answerFile,
      ],
      environment: { NODE_ENV: 'production' },
    }),
  }
}

const fileNames: Record<string, string> = {
  'node:http, constant answer': 'node-http',
  'Fastify + LRU': 'fastify-lru',
  'Express + LRU + prom-client': 'express-lru',
  '@fastify/http-proxy': 'fastify-http-proxy',
  'http-proxy-middleware': 'http-proxy-middleware',
  'node:http + undici, raw': 'undici-raw',
}

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
export const bareName = 'node:http, constant answer'
export const fastifyLruName = 'Fastify + LRU'
export const fastifyProxyName = '@fastify/http-proxy'
export const middlewareName = 'http-proxy-middleware'
export const nginxName = 'nginx'
/** The upstream itself, asked without anything in between. */
export const directName = 'no gateway'

const contenders: readonly Contender[] = [
  gateway(gatewayName),
  script(bareName, ['hit']),
  script(fastifyLruName, ['hit']),
  script('Express + LRU + prom-client', ['hit']),
  script('node:http + undici, raw', ['pass']),
  script(fastifyProxyName, ['pass']),
  script(middlewareName, ['pass']),
  {
    name: nginxName,
    skills: ['hit', 'pass', 'cold'],
    needs: 'nginx',
    hitHeaders: json,
    launch: (setting) => ({
      command: 'nginx',
      arguments: ['-p', setting.directory, '-c', 'nginx.conf', '-e', 'stderr'],
      files: { [join(setting.directory, 'nginx.conf')]: nginxConfig(setting) },
    }),
  },
  {
    name: 'Varnish',
    skills: ['hit', 'pass', 'cold'],
    needs: 'varnishd',
    hitHeaders: json,
    launch: ({ port, upstreamPort, directory }) => ({
      command: 'varnishd',
      arguments: [
        ...['-F', '-j', 'none', '-a', `127.0.0.1:${port}`, '-T', 'none', '-n', join(directory, 'work')],
        ...['-s', 'malloc,256m', '-f', join(directory, 'default.vcl')],
      ],
      files: { [join(directory, 'default.vcl')]: varnishConfig(upstreamPort) },
    }),
  },
  {
    name: 'haproxy',
    skills: ['hit', 'pass', 'cold'],
    needs: 'haproxy',
    hitHeaders: json,
    launch: (setting) => ({
      command: 'haproxy',
      arguments: ['-db', '-q', '-f', join(setting.directory, 'haproxy.cfg')],
      files: { [join(setting.directory, 'haproxy.cfg')]: haproxyConfig(setting) },
    }),
  },
]

/** Those that can run here, and the names of the programs that are missing. */
export function availableContenders(): { present: Contender[]; missing: string[] } {
  const missing: string[] = []
  const present = contenders.filter(({ needs }) => {
    if (needs === undefined || installedVersion(needs) !== undefined) return true
    missing.push(needs)
    return false
  })
  return { present, missing }
}
