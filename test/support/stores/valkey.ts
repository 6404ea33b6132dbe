import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { onTestFinished } from 'vitest'
import { readStoreUrl } from '../../../src/config/urls.ts'
import { Events } from '../../../src/events.ts'
import type { SharedStore } from '../../../src/memory/store.ts'
import { Valkey, type ValkeyOptions } from '../../../src/memory/valkey.ts'
import { silentLogger } from '../../../src/process/logger.ts'
import { until } from '../gateways/between.ts'
import { freePort } from '../machine/free-port.ts'
import { pathOf } from '../machine/programs.ts'

export interface ValkeyServer {
  readonly url: string
  readonly port: number
  /** The connection refuses from now on. */
  kill(): Promise<void>
  /** Everything that it knew is gone. */
  restartEmpty(): Promise<void>
  /** It accepts connections and says nothing. */
  freeze(): void
  thaw(): void
  /** A command over a connection of its own, of an administrator. */
  ask(...command: (string | number)[]): Promise<unknown>
  end(): Promise<void>
}

interface ServerOptions {
  port?: number
  password?: string
  tls?: Certificate
  /** Further lines of its configuration. */
  config?: readonly string[]
  /** Run as `redis-sentinel`. */
  sentinel?: boolean
}

/** A server on a free port. Stopped by the test that started it. */
export async function startValkey(options: ServerOptions = {}): Promise<ValkeyServer> {
  const { password, tls, config = [], sentinel = false } = options
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-valkey-'))
  const port = options.port ?? (await freePort())
  const file = join(folder, 'server.conf')
  const secured = tls && [
    'port 0',
    `tls-port ${port}`,
    'tls-auth-clients no',
    `tls-ca-cert-file ${tls.authority}`,
    `tls-cert-file ${tls.certificate}`,
    `tls-key-file ${tls.key}`,
  ]
  const lines = [
    ...(secured ?? [`port ${port}`]),
    'bind 127.0.0.1',
    `dir ${folder}`,
    ...(sentinel ? [] : ['save ""', 'appendonly no']),
    ...(password === undefined ? [] : [`requirepass ${password}`]),
    ...config,
  ]
  let child: ChildProcess | undefined
  let frozen = false

  async function ask(
    ...[name = '', ...parameters]: (string | number)[]
  ): Promise<unknown> {
    const login = password === undefined ? {} : { password }
    const untrusted = tls ? { tls: { rejectUnauthorized: false } } : {}
    const redis = new Redis({
      port,
      ...login,
      ...untrusted,
      retryStrategy: null,
      lazyConnect: true,
    })
    redis.on('error', () => {})
    try {
      await redis.connect()
      return await redis.call(String(name), ...parameters)
    } finally {
      redis.disconnect()
    }
  }

  async function start(): Promise<void> {
    writeFileSync(file, `${lines.join('\n')}\n`)
    const flags = [file, ...(sentinel ? ['--sentinel'] : [])]
    const started = spawn(pathOf('redis-server') ?? 'redis-server', flags, {
      stdio: 'ignore',
    })
    child = started
    let answers = false
    const look = () =>
      ask('PING').then(
        () => (answers = true),
        () => {},
      )
    await until(() => {
      if (started.exitCode !== null)
        throw new Error(`the store ended at its start with ${started.exitCode}`)
      if (!answers) void look()
      return answers
    }, 'a store that answers')
  }

  async function kill(): Promise<void> {
    const running = child
    child = undefined
    frozen = false
    if (running === undefined || running.exitCode !== null) return
    const over = new Promise((resolve) => running.once('exit', resolve))
    running.kill('SIGKILL')
    await over
  }

  await start()
  const userInfo = password === undefined ? '' : `:${encodeURIComponent(password)}@`
  return {
    url: tls
      ? `rediss://${userInfo}localhost:${port}`
      : `redis://${userInfo}127.0.0.1:${port}`,
    port,
    kill,
    async restartEmpty() {
      await kill()
      await start()
    },
    freeze() {
      frozen = true
      child?.kill('SIGSTOP')
    },
    thaw() {
      if (frozen) child?.kill('SIGCONT')
      frozen = false
    },
    ask,
    async end() {
      await kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** A server that ends with the test. */
export async function valkey(options?: ServerOptions): Promise<ValkeyServer> {
  const server = await startValkey(options)
  onTestFinished(() => server.end())
  return server
}

/** Three servers that share the slots. The URL names all of them. */
export async function valkeyCluster(): Promise<{
  url: string
  servers: readonly ValkeyServer[]
}> {
  const start = async () =>
    valkey({
      config: [
        'cluster-enabled yes',
        `cluster-port ${await freePort()}`,
        'cluster-node-timeout 5000',
      ],
    })
  const servers = [await start(), await start(), await start()]
  const bounds = [0, 5_461, 10_923, 16_384]
  const [first] = servers
  for (const [index, server] of servers.entries()) {
    await server.ask(
      'CLUSTER',
      'ADDSLOTSRANGE',
      bounds[index] ?? 0,
      (bounds[index + 1] ?? 0) - 1,
    )
    await server.ask('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
    const busPort = (await server.ask('CONFIG', 'GET', 'cluster-port')) as string[]
    if (server !== first)
      await first?.ask('CLUSTER', 'MEET', '127.0.0.1', server.port, busPort[1] ?? '')
  }
  for (const server of servers)
    await untilAsked(server, ['CLUSTER', 'INFO'], /cluster_state:ok/)
  return {
    url: `redis+cluster://${servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    servers,
  }
}

/** As a rebalancing does: the slot, with what is in it, gets another master. Resolves when all have agreed to that. */
export async function moveSlot(
  servers: readonly ValkeyServer[],
  slot: number,
  from: ValkeyServer,
): Promise<void> {
  const to = servers[(servers.indexOf(from) + 1) % servers.length] ?? from
  const [fromId, toId] = [
    await from.ask('CLUSTER', 'MYID'),
    await to.ask('CLUSTER', 'MYID'),
  ].map(String)
  await to.ask('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId ?? '')
  await from.ask('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId ?? '')
  const moveKeys = async () => {
    const keys = (await from.ask('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[]
    if (keys.length > 0)
      await from.ask('MIGRATE', '127.0.0.1', to.port, '', 0, 1_000, 'KEYS', ...keys)
    return keys.length > 0
  }
  while (await moveKeys());
  const isKept = (error: unknown) =>
    error instanceof Error && error.message.includes('still hold keys')
  for (const server of [to, from, ...servers]) {
    const assign = () => server.ask('CLUSTER', 'SETSLOT', slot, 'NODE', toId ?? '')
    // Until the servers have agreed, one that has just given the slot away may hear that it is the master, and take a write.
    await assign().catch(async (error) => {
      if (!isKept(error)) throw error
      await moveKeys()
      await assign()
    })
  }
}

/** A master and a replica under three Sentinels, which agree within a second or two that one is gone. */
export async function valkeySentinels(
  passwords: { ofServers?: string; ofSentinels?: string } = {},
): Promise<{
  url: string
  master: ValkeyServer
  replica: ValkeyServer
}> {
  const { ofServers, ofSentinels } = passwords
  const own = ofServers === undefined ? {} : { password: ofServers }
  const ofMaster = ofServers === undefined ? [] : [`masterauth ${ofServers}`]
  const master = await valkey({ ...own, config: ofMaster })
  const replica = await valkey({
    ...own,
    config: [`replicaof 127.0.0.1 ${master.port}`, ...ofMaster],
  })
  await untilAsked(replica, ['INFO', 'replication'], /master_link_status:up/)
  const config = [
    `sentinel monitor quotes 127.0.0.1 ${master.port} 2`,
    'sentinel down-after-milliseconds quotes 500',
    'sentinel failover-timeout quotes 3000',
    ...(ofServers ? [`sentinel auth-pass quotes ${ofServers}`] : []),
    ...(ofSentinels ? [`sentinel sentinel-pass ${ofSentinels}`] : []),
  ]
  const start = () =>
    valkey({ sentinel: true, config, ...(ofSentinels && { password: ofSentinels }) })
  const sentinels = [await start(), await start(), await start()]
  for (const sentinel of sentinels) {
    await untilAsked(sentinel, ['SENTINEL', 'CKQUORUM', 'quotes'], /^OK 3/)
    await untilAsked(
      sentinel,
      ['SENTINEL', 'REPLICAS', 'quotes'],
      new RegExp(`${replica.port}`),
    )
  }
  const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')
  const userInfo = ofServers ? `:${ofServers}@` : ''
  const query = ofSentinels ? `?sentinelPassword=${ofSentinels}` : ''
  return { url: `redis+sentinel://${userInfo}${hosts}/quotes${query}`, master, replica }
}

/** Asks again until the answer is as it should be. */
export async function untilAsked(
  server: ValkeyServer,
  command: readonly (string | number)[],
  answer: RegExp,
): Promise<void> {
  let last = ''
  await until(
    () => {
      server.ask(...command).then(
        (said) => (last = String(said)),
        () => {},
      )
      return answer.test(last)
    },
    `${command.join(' ')} to answer ${answer}`,
  )
}

interface Certificate {
  certificate: string
  key: string
  /** What signed it, as NODE_EXTRA_CA_CERTS wants it. */
  authority: string
}

/** By an unknown authority. */
export function privateCertificate(
  name = 'localhost',
  extensions: readonly string[] = [],
): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-tls-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const [certificate, key] = [join(folder, 'certificate.pem'), join(folder, 'key.pem')]
  const subject = [
    '-subj',
    `/CN=${name}`,
    '-addext',
    `subjectAltName=DNS:${name},IP:127.0.0.1`,
  ]
  const command = [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '2',
    ...subject,
  ]
  const more = extensions.flatMap((extension) => ['-addext', extension])
  execFileSync('openssl', [...command, ...more, '-keyout', key, '-out', certificate], {
    stdio: 'ignore',
  })
  return { certificate, key, authority: certificate }
}

/** The store as a gateway has it, up unless it cannot be. Patient, because a test shares its machine. */
export async function storeAt(
  url: string,
  options: Partial<ValkeyOptions> & { mayBeDown?: boolean } = {},
): Promise<SharedStore> {
  const address = readStoreUrl(url)
  if ('expected' in address) throw new Error(`not the URL of a store: ${url}`)
  const store = new Valkey({
    address,
    keyPrefix: 'quotegate:',
    timeoutMs: 1_000,
    log: silentLogger(),
    events: new Events(),
    ...options,
  }).start()
  onTestFinished(() => store.close())
  if (!options.mayBeDown) await until(() => store.up, 'a store that is up')
  return store
}
