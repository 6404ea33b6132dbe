import { pause } from '../gateways/between.ts'
import type { Fleet } from '../gateways/fleet.ts'
import type { StoreLine } from './store-line.ts'
import {
  moveSlot,
  untilAsked,
  type ValkeyServer,
  valkey,
  valkeyCluster,
  valkeySentinels,
} from './valkey.ts'
import { lineTo } from './watched-store.ts'

/** A store of three replicas with one thing that can go wrong with it. */
interface FleetStore {
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

const usualMs = 3_000
/** What the store that lags behind its master lacks at the failover. */
const unreplicatedMs = 1_500

const sameFor = (url: string) => [url, url, url] as const

/** A fault of a single server. */
function ofServer(
  name: string,
  fault: (server: ValkeyServer) => Omit<FleetStore, 'urls'>,
  {
    lastsMs = usualMs,
    config = [],
  }: { lastsMs?: number; config?: readonly string[] } = {},
): FleetFault {
  const set = async () => {
    const server = await valkey({ config })
    return { urls: sameFor(server.url), ...fault(server) }
  }
  return { name, lastsMs, set }
}

type Change = (lines: readonly StoreLine[]) => void

/** `change` makes the lines of some of the replicas bad. */
function ofLines(
  name: string,
  [change, back]: [Change, Change],
  more: { cutsOffOne?: true } = {},
): FleetFault {
  const set = async () => {
    const { port } = await valkey()
    const lines = [await lineTo(port), await lineTo(port), await lineTo(port)] as const
    return {
      urls: [lines[0].url, lines[1].url, lines[2].url] as const,
      break: async () => change(lines),
      mend: () => back(lines),
    }
  }
  return { name, lastsMs: usualMs, set, ...more }
}

type State = Parameters<StoreLine['set']>[0]
const setAll =
  (state: State): Change =>
  (lines) => {
    for (const line of lines) line.set(state)
  }
const setLast =
  (state: State): Change =>
  (lines) =>
    lines[2]?.set(state)
const delayAll =
  (ms: number): Change =>
  (lines) => {
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
  ofServer('stopped for 3 s', (server) => ({
    break: async () => server.freeze(),
    mend: () => server.thaw(),
  })),
  ofServer(
    'killed, back empty',
    (server) => ({ break: () => server.kill(), mend: () => server.restartEmpty() }),
    { lastsMs: 1_500 },
  ),
  ofServer(
    'killed, back with its data',
    // Its folder is the same, so that it is not empty this time.
    (server) => ({ break: () => server.kill(), mend: () => server.restartEmpty() }),
    { lastsMs: 1_500, config: ['appendonly yes'] },
  ),
  ofServer(
    'stopped, replicas killed',
    (server) => ({
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
    }),
    { lastsMs: 0 },
  ),
]

/** The lines to the store are bad. */
export const badLines: readonly FleetFault[] = [
  ofLines('every answer 300 ms late', [delayAll(300), delayAll(0)]),
  ofLines('cut off from all', [setAll('cut'), setAll('open')]),
  ofLines('one replica alone cut off', [setLast('cut'), setLast('open')], {
    cutsOffOne: true,
  }),
  ofLines('one replica alone in a black hole', [setLast('swallowing'), setLast('open')], {
    cutsOffOne: true,
  }),
]

/** The store loses what it had, or takes nothing more. */
export const losingStores: readonly FleetFault[] = [
  ofServer('full', ({ ask }) => ({
    break: () => ask('CONFIG', 'SET', 'maxmemory', '1'),
    mend: () => ask('CONFIG', 'SET', 'maxmemory', '0'),
  })),
  ofServer('READONLY after a failover', ({ ask }) => ({
    break: () => ask('REPLICAOF', '127.0.0.1', '1'),
    mend: () => ask('REPLICAOF', 'NO', 'ONE'),
  })),
  ofServer('FLUSHALL', ({ ask }) => ({ break: () => ask('FLUSHALL') }), { lastsMs: 0 }),
  ofServer(
    'the stream deleted',
    (server) => ({
      break: async () => server.ask('DEL', ...(await keysOf(server, '*journal*'))),
    }),
    { lastsMs: 0 },
  ),
]

/** Around the fleet's VALKEY_TIMEOUT_MS. */
const shortestStallMs = 30
const longestStallMs = 800

/** The store is well, and the replicas are not: containers without their share of a processor, a machine that is moved. */
export const stallingReplicas: readonly FleetFault[] = [
  ofServer(
    'replicas stand still in turns',
    () => ({
      async break(fleet) {
        const endsAtMs = performance.now() + 2 * usualMs
        const aWhile = () =>
          pause(shortestStallMs + Math.random() * (longestStallMs - shortestStallMs))
        for (let turn = 0; performance.now() < endsAtMs; turn += 1) {
          const child = fleet.all[turn % fleet.all.length]?.program.child
          child?.kill('SIGSTOP')
          await aWhile()
          child?.kill('SIGCONT')
          await pause(shortestStallMs)
        }
      },
    }),
    { lastsMs: 0 },
  ),
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
          const endsAtMs = Date.now() + usualMs
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
