import { join } from 'node:path'
import { type Contender, gateway, gatewayName, json, type Skill } from '../../shared/contender.ts'
import { benchDirectory, installedVersion } from '../../shared/machine.ts'
import { haproxyConfig, nginxConfig, varnishConfig } from './configurations.ts'

export const bareName = 'node:http, constant answer'
export const fastifyLruName = 'Fastify + LRU'
export const fastifyProxyName = '@fastify/http-proxy'
export const middlewareName = 'http-proxy-middleware'
export const nginxName = 'nginx'
/** The upstream itself, asked without anything in between. */
export const directName = 'no gateway'

function script(name: string, skills: readonly Skill[]): Contender {
  return {
    name,
    skills,
    hitHeaders: json,
    launch: ({ port, upstreamPort, answerFile }) => ({
      command: process.execPath,
      arguments: [
        join(benchDirectory, 'compare', 'contenders', `${fileNames[name]}.mjs`),
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
