import { join } from 'node:path'
import { type Contender, gateway, gatewayName, jsonHeader, type Skill } from '../../shared/contender.ts'
import { benchDirectory, installedVersion } from '../../shared/machine.ts'
import { haproxyConfig, nginxConfig } from './configurations.ts'

export const bareName = 'node:http, reads the headers'
export const fastifyLruName = 'Fastify + LRU'
export const undiciName = 'node:http + undici, raw'
export const nginxName = 'nginx'
/** The upstream itself, without anything in between. */
export const directName = 'no gateway'

function script(name: string, file: string, skills: readonly Skill[]): Contender {
  return {
    name,
    skills,
    hitHeaders: jsonHeader,
    launch: ({ port, upstreamPort, answerFile }) => ({
      command: process.execPath,
      arguments: [
        join(benchDirectory, 'compare', 'contenders', file),
        String(port),
        String(upstreamPort),
        answerFile,
      ],
      environment: { NODE_ENV: 'production' },
    }),
  }
}

const contenders: readonly Contender[] = [
  gateway(gatewayName),
  script(bareName, 'node-http.mjs', ['hit']),
  script(fastifyLruName, 'fastify-lru.mjs', ['hit', 'fetch']),
  script('Express + LRU + prom-client', 'express-lru.mjs', ['hit', 'fetch']),
  script(undiciName, 'undici-raw.mjs', ['pass']),
  script('@fastify/http-proxy', 'fastify-http-proxy.mjs', ['pass']),
  {
    name: nginxName,
    skills: ['hit', 'pass', 'fetch'],
    needs: 'nginx',
    hitHeaders: jsonHeader,
    launch: (setting) => ({
      command: 'nginx',
      arguments: ['-p', setting.directory, '-c', 'nginx.conf', '-e', 'stderr'],
      files: { [join(setting.directory, 'nginx.conf')]: nginxConfig(setting) },
    }),
  },
  {
    name: 'haproxy',
    skills: ['hit', 'pass', 'fetch'],
    needs: 'haproxy',
    hitHeaders: jsonHeader,
    launch: (setting) => ({
      command: 'haproxy',
      arguments: ['-db', '-q', '-f', join(setting.directory, 'haproxy.cfg')],
      files: { [join(setting.directory, 'haproxy.cfg')]: haproxyConfig(setting) },
    }),
  },
]

export const contenderNames: ReadonlySet<string> = new Set(contenders.map(({ name }) => name))

/** The contenders that are installed, and the names of the programs that are missing. */
export function availableContenders(): { present: Contender[]; missing: string[] } {
  const missing: string[] = []
  const present = contenders.filter(({ needs }) => {
    if (needs === undefined || installedVersion(needs) !== undefined) return true
    missing.push(needs)
    return false
  })
  return { present, missing }
}
