import { freePort } from '../machine/free-port.ts'
import { startStoreLine } from './store-line.ts'
import { startValkey, type ValkeyServer } from './valkey.ts'

/** A store with one thing that can go wrong with it. */
export interface FaultyStore {
  /** As VALKEY_URL has it. */
  url: string
  break(): Promise<void>
  mend(): Promise<void>
  end(): Promise<void>
}

export interface StoreFault {
  name: string
  /** Whether it is there from the start, before any gateway. */
  fromTheStart?: boolean
  /** Whether it is over by itself, as soon as it was there. */
  passes?: boolean
  set(): Promise<FaultyStore>
}

async function faulty(
  server: ValkeyServer,
  parts: { url?: string; break(): unknown; mend(): unknown; end?(): void },
): Promise<FaultyStore> {
  return {
    url: parts.url ?? server.url,
    async break() {
      await parts.break()
    },
    async mend() {
      await parts.mend()
    },
    async end() {
      parts.end?.()
      await server.end()
    },
  }
}

/** All that a store can do to a gateway. */
export const storeFaults: readonly StoreFault[] = [
  {
    name: 'dead',
    async set() {
      const server = await startValkey()
      return faulty(server, { break: server.kill, mend: server.restartEmpty })
    },
  },
  {
    name: 'frozen',
    async set() {
      const server = await startValkey()
      return faulty(server, { break: server.freeze, mend: server.thaw })
    },
  },
  {
    name: 'slow: every answer 5 s late',
    async set() {
      const server = await startValkey()
      const line = await startStoreLine(server.port)
      const late = (ms: number) => () => {
        line.delayMs = ms
      }
      return faulty(server, { url: line.url, break: late(5_000), mend: late(0), end: line.end })
    },
  },
  {
    name: 'cut off: connections lead nowhere',
    passes: true,
    async set() {
      const server = await startValkey()
      const line = await startStoreLine(server.port)
      return faulty(server, { url: line.url, break: line.swallow, mend() {}, end: line.end })
    },
  },
  {
    name: 'restarted empty',
    passes: true,
    async set() {
      const server = await startValkey()
      return faulty(server, { break: server.restartEmpty, mend() {} })
    },
  },
  {
    name: 'READONLY after a failover',
    async set() {
      const server = await startValkey()
      const gone = await freePort()
      return faulty(server, {
        break: () => server.ask('REPLICAOF', '127.0.0.1', gone),
        mend: () => server.ask('REPLICAOF', 'NO', 'ONE'),
      })
    },
  },
  {
    name: 'out of memory',
    async set() {
      const server = await startValkey()
      return faulty(server, {
        break: () => server.ask('CONFIG', 'SET', 'maxmemory', '1'),
        mend: () => server.ask('CONFIG', 'SET', 'maxmemory', '0'),
      })
    },
  },
  {
    name: 'down at the start',
    fromTheStart: true,
    async set() {
      const server = await startValkey()
      return faulty(server, { break: server.kill, mend: server.restartEmpty })
    },
  },
  {
    name: 'frozen at the start',
    fromTheStart: true,
    async set() {
      const server = await startValkey()
      return faulty(server, { break: server.freeze, mend: server.thaw })
    },
  },
  {
    name: 'wrong password',
    fromTheStart: true,
    async set() {
      const server = await startValkey({ password: 'right' })
      return faulty(server, {
        url: server.url.replace('right', 'wrong'),
        break() {},
        mend: () => server.ask('CONFIG', 'SET', 'requirepass', 'wrong'),
      })
    },
  },
]
