import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'

/** Its standard output. Its standard error is part of what is thrown where it fails. */
export function docker(...parameters: string[]): string {
  return execFileSync('docker', parameters, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 64 * 1024 * 1024,
  }).trim()
}

/** As docs/containers.md says that the image is to be run: nothing can be written, and root has no powers. */
export const restricted = ['--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges:true']

export interface ContainerOptions {
  name: string
  /** Flags of `docker run`. */
  flags?: readonly string[]
  settings?: Readonly<Record<string, string>>
  command?: readonly string[]
  image?: string
}

/** Starts a container in the network `trial`, where each is reached by its name. */
export function runContainer(options: ContainerOptions): void {
  const { name, flags = restricted, settings = {}, command = [], image = 'quotegate' } = options
  const environment = Object.entries(settings).flatMap(([key, value]) => ['--env', `${key}=${value}`])
  docker('run', '--detach', '--name', name, '--network', 'trial', ...flags, ...environment, image, ...command)
}

export function removeContainers(...names: string[]): void {
  docker('rm', '--force', '--volumes', ...names)
}

export function addressOf(name: string): string {
  return docker('inspect', '--format', '{{.NetworkSettings.Networks.trial.IPAddress}}', name)
}

export interface State {
  ExitCode: number
  OOMKilled: boolean
  Running: boolean
  Health?: { Status: string }
}

export function stateOf(name: string): State {
  return JSON.parse(docker('inspect', '--format', '{{json .State}}', name)) as State
}

/** Asks until the answer is yes. Throws after `withinMs`, with what the last question threw, if anything. */
export async function until(
  what: string,
  ask: () => boolean | Promise<boolean>,
  withinMs = 60_000,
): Promise<void> {
  const endMs = Date.now() + withinMs
  let cause: unknown
  while (Date.now() < endMs) {
    try {
      if (await ask()) return
    } catch (error) {
      cause = error
    }
    await sleep(200)
  }
  throw new Error(`not within ${withinMs} ms: ${what}`, { cause })
}

export async function isOk(url: string): Promise<boolean> {
  const response = await fetch(url, { signal: AbortSignal.timeout(5_000) })
  await response.arrayBuffer()
  return response.ok
}
