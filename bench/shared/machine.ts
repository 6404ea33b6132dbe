import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cpus, release, totalmem, type } from 'node:os'
import { fileURLToPath } from 'node:url'

export interface Pinning {
  server: number
  load: number
}

/** What is not an npm package. */
const programs = ['nginx', 'wrk']

/** Undefined: not installed. */
export function installedVersion(program: string): string | undefined {
  const { error, stdout, stderr } = spawnSync(program, ['-v'], { encoding: 'utf8' })
  if (error) return undefined
  return /\d+\.\d+(?:\.\d+)?/.exec(`${stdout}${stderr}`)?.[0] ?? 'unknown'
}

/** The first two cores that this process may use; undefined without two cores or taskset. */
function choosePinning(): Pinning | undefined {
  const { status, stdout } = spawnSync('taskset', ['-cp', String(process.pid)], {
    encoding: 'utf8',
  })
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

/** The processor, the system and the versions that a figure depends on, with the date. */
export function machineAsText(pinned: Pinning | undefined): string {
  const where = pinned
    ? `server on core ${pinned.server}, load and upstream on core ${pinned.load}`
    : 'nothing pinned'
  const parts = [
    new Date().toISOString().slice(0, 10),
    cpus()[0]?.model.trim() ?? 'unknown processor',
    `${cpus().length} cores`,
    `${Math.round(totalmem() / 2 ** 30)} GiB`,
    `${type()} ${release()}`,
    `Node ${process.version}`,
    ...programs.flatMap((program) => {
      const version = installedVersion(program)
      return version === undefined ? [] : [`${program} ${version}`]
    }),
  ]
  return `${parts.join(', ')}; ${where}`
}

export const benchDirectory = fileURLToPath(new URL('..', import.meta.url))
export const builtProgram = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** The contenders that are npm packages are in bench/node_modules, which the product does not use. */
export function installPeers(say: (text: string) => void): void {
  if (existsSync(`${benchDirectory}/node_modules/fastify`)) return
  say('installing the contenders (npm ci --prefix bench)')
  execFileSync('npm', ['ci', '--prefix', benchDirectory, '--no-audit', '--no-fund'], {
    stdio: 'ignore',
  })
}
