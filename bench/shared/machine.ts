import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cpus, totalmem, type } from 'node:os'
import { fileURLToPath } from 'node:url'

export interface Machine {
  processor: string
  cores: number
  memoryGiB: number
  system: string
  node: string
  /** The cores of servers and load; undefined: nothing is pinned. */
  pinned: Pinning | undefined
  /** Versions of wrk and of the contenders that are not npm packages. */
  versions: Record<string, string>
}

export interface Pinning {
  server: number
  load: number
}

/**
 * A command line whose process runs only while no other process wants its core. It does as much as without, because the
 * load generator leaves the core free while it waits for a busy server. Only with pinned cores: taskset and chrt come
 * in the same package.
 */
export function givingWay(line: readonly string[], pinned: Pinning | undefined): [string, ...string[]] {
  const [command = '', ...rest] = pinned === undefined ? line : ['chrt', '--idle', '0', ...line]
  return [command, ...rest]
}

const versionFlags: Record<string, string> = { nginx: '-v', varnishd: '-V', haproxy: '-v', wrk: '-v' }

/** Undefined: not installed. */
export function installedVersion(program: string): string | undefined {
  const { error, stdout, stderr } = spawnSync(program, [versionFlags[program] ?? '-v'], { encoding: 'utf8' })
  if (error) return undefined
  return /\d+\.\d+(?:\.\d+)?/.exec(`${stdout}${stderr}`)?.[0] ?? 'unknown'
}

/** The first two cores that this process may use; undefined without two cores or taskset. */
function choosePinning(): Pinning | undefined {
  const { status, stdout } = spawnSync('taskset', ['-cp', String(process.pid)], { encoding: 'utf8' })
  if (status !== 0) return undefined
  const list = stdout.slice(stdout.lastIndexOf(':') + 1).trim()
  const allowed = list.split(',').flatMap((part) => {
    const [first = 0, last = first] = part.split('-').map(Number)
    return Array.from({ length: last - first + 1 }, (_, index) => first + index)
  })
  const [server, load] = allowed
  return server === undefined || load === undefined ? undefined : { server, load }
}

/** Puts this process and its children on the load's core; servers are started on their own. */
export function pinLoad(): Pinning | undefined {
  const pinning = choosePinning()
  if (pinning) spawnSync('taskset', ['-acp', String(pinning.load), String(process.pid)])
  return pinning
}

export function describeMachine(pinned: Pinning | undefined): Machine {
  const versions: Record<string, string> = {}
  for (const program of Object.keys(versionFlags)) {
    const version = installedVersion(program)
    if (version !== undefined) versions[program] = version
  }
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${spawnSync('uname', ['-r'], { encoding: 'utf8' }).stdout.trim()}`,
    node: process.version,
    pinned,
    versions,
  }
}

export const benchDirectory = fileURLToPath(new URL('..', import.meta.url))

/** The contenders that are npm packages are in bench/node_modules, which the product does not use. */
export function installPeers(say: (text: string) => void): void {
  if (existsSync(`${benchDirectory}/node_modules/fastify`)) return
  say('installing the contenders (npm ci --prefix bench)')
  execFileSync('npm', ['ci', '--prefix', benchDirectory, '--no-audit', '--no-fund'], { stdio: 'ignore' })
}
