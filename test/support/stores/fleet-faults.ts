import { onTestFinished } from 'vitest'
import { pause } from '../gateways/between.ts'
import type { Fleet } from '../gateways/fleet.ts'
import { freePort } from '../machine/free-port.ts'
import { startStoreLine } from './store-line.ts'
import { moveSlot, untilAsked, type ValkeyServer, valkey, valkeyCluster, valkeySentinels } from './valkey.ts'

/** A store of three replicas with one thing that can go wrong with it. */
export interface FleetStore {
  /** VALKEY_URL of each. Replicas that start later have the first one. */
  readonly urls: readonly [string, string, string]
  /** Resolves when the fault is over by itself, if it is. */
  break(fleet: Fleet): Promise<unknown>
  mend?(fleet: Fleet): unknown
  /** What happens besides, once the store is back. */
  afterwards?(fleet: Fleet): Promise<void>
}

export interface FleetFault {
  readonly name: string
  /** Between `break` and `mend`. */
  readonly lastsMs: number
  /** The last replica alone has no store, and the others cannot know what it notes. */
  readonly cutsOffOne?: boolean
  set(): Promise<FleetStore>
}

const lastsMs = 3_000
/** What the store that lags behind its master lacks at the failover. */
const unreplicatedMs = 1_500

const sameFor = (url: string) => [url, url, url] as const

async function ofServer(
  fault: (server: ValkeyServer) => Omit<FleetStore, 'urls'>,
  config: readonly string[] = [],
): Promise<FleetStore> {
  const server = await valkey({ config })
  return { urls: sameFor(server.url), ...fault(server) }
}

/** `change` makes the lines of some of the replicas bad. */
async function ofLines(
  change: (lines: readonly Line[]) => void,
  back: (lines: readonly Line[]) => void,
): Promise<FleetStore> {
  const server = await valkey()
  const line = async () => {
    const started = await startStoreLine(server.port)
    onTestFinished(() => started.end())
    return started
  }
  const lines = [await line(), await line(), await line()] as const
  return {
    urls: [lines[0].url, lines[1].url, lines[2].url],
    break: async () => change(lines),
    mend: () => back(lines),
  }
}

type Line = Awaited<ReturnType<typeof startStoreLine>>

const setAll = (state: Parameters<Line['set']>[0]) => (lines: readonly Line[]) => {
  for (const line of lines) line.set(state)
}

const setLast = (state: Parameters<Line['set']>[0]) => (lines: readonly Line[]) => lines[2]?.set(state)

const delayAll = (ms: number) => (lines: readonly Line[]) => {
  for (const line of lines) line.delayMs = ms
}

async function keysOf(server: ValkeyServer, pattern: string): Promise<string[]> {
  return (await server.ask('KEYS', pattern)) as string[]
}

/** Kills it as kill -9 does, and starts another one in its place. */
async function replaceReplica(fleet: Fleet, index: number, url: string): Promise<void> {
  const replica = fleet.all[index]
  if (replica === undefined) throw new RangeError(`no replica ${index}`)
  await fleet.kill(replica)
  await fleet.start(`${replica.name} again`, url)
}

/** The store says nothing for a while, or is gone. */
export const silentStores: readonly FleetFault[] = [
  {
    name: 'stopped for 3 s',
    lastsMs,
    set: () => ofServer((server) => ({ break: async () => server.freeze(), mend: () => server.thaw() })),
  },
  {
    name: 'killed, back empty',
    lastsMs: 1_500,
    set: () => ofServer((server) => ({ break: () => server.kill(), mend: () => server.restartEmpty() })),
  },
  {
    name: 'killed, back with its data',
    lastsMs: 1_500,
    set: () =>
      ofServer(
        // Its folder is the same, so that it is not empty this time.
        (server) => ({ break: () => server.kill(), mend: () => server.restartEmpty() }),
        ['appendonly yes'],
      ),
  },
  {
    name: 'stopped, replicas killed',
    lastsMs: 0,
    set: () =>
      ofServer((server) => ({
        async break(fleet) {
          server.freeze()
          await pause(1_000)
          await replaceReplica(fleet, 2, server.url)
          await pause(1_000)
        },
        mend: () => server.thaw(),
        async afterwards(fleet) {
          await pause(2_000)
          await replaceReplica(fleet, 1, server.url)
        },
      })),
  },
]

/** The lines to the store are bad. */
export const badLines: readonly FleetFault[] = [
  {
    name: 'every answer 300 ms late',
    lastsMs,
    set: () => ofLines(delayAll(300), delayAll(0)),
  },
  {
    name: 'cut off from all',
    lastsMs,
    set: () => ofLines(setAll('cut'), setAll('open')),
  },
  {
    name: 'one replica alone cut off',
    lastsMs,
    cutsOffOne: true,
    set: () => ofLines(setLast('cut'), setLast('open')),
  },
  {
    name: 'one replica alone in a black hole',
    lastsMs,
    cutsOffOne: true,
    set: () => ofLines(setLast('swallowing'), setLast('open')),
  },
]

/** The store loses what it had, or takes nothing more. */
export const losingStores: readonly FleetFault[] = [
  {
    name: 'full',
    lastsMs,
    set: () =>
      ofServer((server) => ({
        break: () => server.ask('CONFIG', 'SET', 'maxmemory', '1'),
        mend: () => server.ask('CONFIG', 'SET', 'maxmemory', '0'),
      })),
  },
  {
    name: 'READONLY after a failover',
    lastsMs,
    set: () =>
      ofServer((server) => ({
        break: async () => server.ask('REPLICAOF', '127.0.0.1', await freePort()),
        mend: () => server.ask('REPLICAOF', 'NO', 'ONE'),
      })),
  },
  {
    name: 'FLUSHALL',
    lastsMs: 0,
    set: () => ofServer((server) => ({ break: () => server.ask('FLUSHALL') })),
  },
  {
    name: 'the stream deleted',
    lastsMs: 0,
    set: () =>
      ofServer((server) => ({
        break: async () => server.ask('DEL', ...(await keysOf(server, '*journal*'))),
      })),
  },
]

/** Another server answers than before. */
export const movingStores: readonly FleetFault[] = [
  {
    name: 'failover with lost writes',
    lastsMs: 0,
    async set() {
      const { url, master, replica } = await valkeySentinels()
      return {
        urls: sameFor(url),
        async break() {
          // The one that is promoted may not follow its master any more.
          await master.ask('ACL', 'SETUSER', 'default', '-psync', '-sync')
          await master.ask('CLIENT', 'KILL', 'TYPE', 'replica')
          await pause(unreplicatedMs)
          await master.kill()
          await untilAsked(replica, ['INFO', 'replication'], /role:master/)
        },
      }
    },
  },
  {
    name: 'a Cluster rebalanced',
    lastsMs: 0,
    async set() {
      const { url, servers } = await valkeyCluster()
      return {
        urls: sameFor(url),
        async break() {
          // The stream, and for 3 s some of the quotes.
          const endsAtMs = Date.now() + lastsMs
          const moved = new Set<number>()
          for (const pattern of ['*journal*', '*']) {
            for (const server of servers) {
              for (const key of (await keysOf(server, pattern)).slice(0, 3)) {
                if (Date.now() > endsAtMs) return
                const slot = Number(await server.ask('CLUSTER', 'KEYSLOT', key))
                // Several keys may be in it.
                if (moved.has(slot)) continue
                moved.add(slot)
                await moveSlot(servers, slot, server)
              }
            }
          }
        },
      }
    },
  },
]
