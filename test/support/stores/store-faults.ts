import { startStoreLine } from './store-line.ts'
import { startValkey, type ValkeyServer } from './valkey.ts'

/** A store with one thing that can go wrong with it. */
interface FaultyStore {
  /** As VALKEY_URL has it. */
  url: string
  break(): Promise<unknown>
  mend(): Promise<unknown>
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

interface Fault extends Omit<StoreFault, 'name' | 'set'> {
  break?(server: ValkeyServer): unknown
  mend?(server: ValkeyServer): unknown
  password?: string
  urlOf?(url: string): string
}

function ofServer(
  name: string,
  { break: breaks, mend, password, urlOf, ...more }: Fault,
): StoreFault {
  const set = async () => {
    const server = await startValkey(password === undefined ? {} : { password })
    return {
      url: urlOf?.(server.url) ?? server.url,
      break: async () => breaks?.(server),
      mend: async () => mend?.(server),
      end: server.end,
    }
  }
  return { name, set, ...more }
}

type Line = Awaited<ReturnType<typeof startStoreLine>>

function ofLine(
  name: string,
  parts: { passes?: boolean; break(line: Line): void; mend?(line: Line): void },
) {
  const set = async () => {
    const server = await startValkey()
    const line = await startStoreLine(server.port)
    return {
      url: line.url,
      break: async () => parts.break(line),
      mend: async () => parts.mend?.(line),
      async end() {
        line.end()
        await server.end()
      },
    }
  }
  return { name, set, ...(parts.passes && { passes: true }) }
}

const dead: Fault = {
  break: (server) => server.kill(),
  mend: (server) => server.restartEmpty(),
}
const frozen: Fault = {
  break: (server) => server.freeze(),
  mend: (server) => server.thaw(),
}
const slowBy = (ms: number) => (line: Line) => {
  line.delayMs = ms
}

/** All that a store can do to a gateway. */
export const storeFaults: readonly StoreFault[] = [
  ofServer('dead', dead),
  ofServer('frozen', frozen),
  ofLine('slow: every answer 5 s late', { break: slowBy(5_000), mend: slowBy(0) }),
  ofLine('cut off: connections lead nowhere', {
    passes: true,
    break: (line) => line.swallow(),
  }),
  ofServer('READONLY after a failover', {
    break: (server) => server.ask('REPLICAOF', '127.0.0.1', '1'),
    mend: (server) => server.ask('REPLICAOF', 'NO', 'ONE'),
  }),
  ofServer('down at the start', { fromTheStart: true, ...dead }),
  ofServer('frozen at the start', { fromTheStart: true, ...frozen }),
  ofServer('wrong password', {
    fromTheStart: true,
    password: 'right',
    urlOf: (url) => url.replace('right', 'wrong'),
    mend: (server) => server.ask('CONFIG', 'SET', 'requirepass', 'wrong'),
  }),
]
