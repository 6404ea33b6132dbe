import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'

/** Its standard output. Its standard error is part of what is thrown where it fails. */
export function docker(...parameters: string[]): string {
  return execFileSync('docker', parameters, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim()
}

/** As docs/containers.md says that the image is to be run: nothing can be written, and root has no powers. */
export const restricted = [
  '--read-only',
  '--cap-drop',
  'ALL',
  '--security-opt',
  'no-new-privileges:true',
]

/** A gateway or what it needs, in the network `trial`, where each container is reached by its name. */
export function container(
  name: string,
  flags: readonly string[],
  command: readonly string[],
): void {
  docker(
    'run',
    '--detach',
    '--name',
    name,
    '--network',
    'trial',
    ...restricted,
    ...flags,
    ...command,
  )
}

export function gateway(name: string, address: string, ...flags: string[]): void {
  const upstreams = ['SWAP', 'PAYMENTS'].map(
    (api) => `--env=${api}_BASE_URL=http://sandbox:8080`,
  )
  container(name, ['--ip', address, ...upstreams, ...flags], ['quotegate'])
}

/** The network `trial` with a sandbox in it, and nothing of either when `body` has ended. */
export async function withSandbox(body: () => Promise<void>): Promise<void> {
  docker('network', 'create', '--subnet', '172.30.0.0/24', 'trial')
  container('sandbox', ['--env=NODE_ENV=development'], ['quotegate', '--sandbox'])
  await body()
  docker('rm', '--force', '--volumes', ...docker('ps', '--all', '--quiet').split('\n'))
  docker('network', 'rm', 'trial')
}

/** As `exited 0 false`: the state, the exit code, whether it was killed for memory. */
export function stateOf(name: string): string {
  return docker(
    'inspect',
    '--format',
    '{{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}}',
    name,
  )
}

/** Asks until the answer is yes. Throws after a minute, with what the last question threw, if anything. */
export async function until(
  what: string,
  ask: () => boolean | Promise<boolean>,
): Promise<void> {
  let cause: unknown
  for (const endMs = Date.now() + 60_000; Date.now() < endMs; await sleep(200)) {
    try {
      if (await ask()) return
    } catch (error) {
      cause = error
    }
  }
  throw new Error(`not within a minute: ${what}`, { cause })
}

export async function isOk(url: string): Promise<boolean> {
  const response = await fetch(url, { signal: AbortSignal.timeout(5_000) })
  await response.arrayBuffer()
  return response.ok
}

export const becomesReady = (address: string) =>
  until('ready', () => isOk(`http://${address}:8081/readyz`))
