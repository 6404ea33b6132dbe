import { join } from 'node:path'
import {
  type Contender,
  gateway,
  gatewayName,
  jsonHeader,
  type Skill,
} from '../../shared/contender.ts'
import { benchDirectory, installedVersion } from '../../shared/machine.ts'
import { nginxConfig } from './nginx.ts'

export const bareName = 'node:http, reads the headers'
export const fastifyLruName = 'Fastify + LRU'
export const undiciName = 'node:http + undici, raw'
export const byHandName = 'node:http + undici + LRU'
export const fastifyProxyName = '@fastify/http-proxy'
export const nginxName = 'nginx'
/** Without its cache. */
export const nginxPassingName = 'nginx, passing'
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

function nginx(name: string, skills: readonly Skill[], cached: string): Contender {
  return {
    name,
    skills,
    needs: 'nginx',
    hitHeaders: jsonHeader,
    launch: (setting) => ({
      command: 'nginx',
      arguments: ['-p', setting.directory, '-c', 'nginx.conf', '-e', 'stderr'],
      files: {
        [join(setting.directory, 'nginx.conf')]: nginxConfig({ ...setting, cached }),
      },
    }),
  }
}

const contenders: readonly Contender[] = [
  gateway(gatewayName),
  script(bareName, 'node-http.mjs', ['hit']),
  script(fastifyLruName, 'fastify-lru.mjs', ['hit', 'fetch']),
  script(undiciName, 'undici-raw.mjs', ['pass']),
  script(byHandName, 'undici-lru.mjs', ['fetch']),
  script(fastifyProxyName, 'fastify-http-proxy.mjs', ['pass', 'fetch']),
  nginx(nginxName, ['hit', 'pass', 'fetch'], '/v3/pairs/'),
  nginx(nginxPassingName, ['fetch'], '/nothing'),
]

export const contenderNames: ReadonlySet<string> = new Set(
  contenders.map(({ name }) => name),
)

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
