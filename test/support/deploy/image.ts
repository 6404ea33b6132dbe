import { execFile, spawn, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { type RunningProgram, watchProgram } from '../gateways/program.ts'
import { environment } from '../machine/environment.ts'
import {
  type Instruction,
  readContext,
  readCopy,
  readDockerfile,
  readEnv,
  repository,
  type Stage,
} from './dockerfile.ts'

const run = promisify(execFile)

/** What the Dockerfile makes, as a folder: its files, and how they are started. */
export interface Image {
  nodeVersion: string
  workingFolder: string
  env: Record<string, string>
  entrypoint: string[]
  healthcheck: string[]
  remove(): void
}

interface Built {
  root: string
  workdir: string
}

/** Does what a builder would do, stage by stage, on the Node of the FROM line. */
export async function buildImage(): Promise<Image> {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-image-'))
  // The image's user has to get in.
  chmodSync(folder, 0o755)
  const stages = readDockerfile()
  const nodeVersion = /^node:(\d+\.\d+\.\d+)-/.exec(stages[0]?.from ?? '')?.[1] ?? ''
  const nodeFolder = await installNode(nodeVersion, join(folder, 'node'))
  const context = join(folder, 'context')
  for (const name of readContext()) {
    cpSync(join(repository, name), join(context, name), { recursive: true })
  }
  const built = new Map<string, Built>()
  for (const stage of stages) {
    built.set(stage.name, await buildStage(stage, { folder, context, nodeFolder, built }))
  }
  const final = stages.at(-1)?.instructions ?? []
  const { root, workdir } = built.get('final') as Built
  return {
    nodeVersion,
    workingFolder: join(root, workdir),
    env: { PATH: `${nodeFolder}:/usr/bin:/bin`, ...readEnv(final) },
    entrypoint: readCommand(final, 'ENTRYPOINT'),
    healthcheck: readCommand(final, 'HEALTHCHECK'),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** The registry of npm has Node itself, in the versions that the images have. */
async function installNode(version: string, folder: string): Promise<string> {
  const name = `node-${process.platform}-${process.arch}`
  mkdirSync(folder)
  const options = ['--no-save', '--no-audit', '--no-fund', '--prefix', folder]
  await run('npm', ['install', ...options, `${name}@${version}`])
  return join(folder, 'node_modules', name, 'bin')
}

interface Surroundings {
  folder: string
  context: string
  nodeFolder: string
  built: ReadonlyMap<string, Built>
}

async function buildStage(stage: Stage, surroundings: Surroundings): Promise<Built> {
  const { folder, nodeFolder, built } = surroundings
  const root = join(folder, stage.name)
  const below = built.get(stage.from)
  if (below) cpSync(below.root, root, { recursive: true })
  else mkdirSync(root)
  let workdir = below?.workdir ?? '/'
  for (const instruction of stage.instructions) {
    const { keyword, rest } = instruction
    if (keyword === 'WORKDIR') {
      workdir = rest
      mkdirSync(join(root, workdir), { recursive: true })
    } else if (keyword === 'COPY') copy(instruction, { root, workdir }, surroundings)
    else if (keyword === 'RUN') {
      const env = { ...environment(), PATH: `${nodeFolder}:${environment().PATH}` }
      await run('sh', ['-c', rest], { cwd: join(root, workdir), env })
    }
  }
  return { root, workdir }
}

function copy(instruction: Instruction, to: Built, { context, built }: Surroundings): void {
  const { from, sources, destination } = readCopy(instruction)
  const origin = from === undefined ? context : built.get(from)?.root
  if (origin === undefined) throw new Error(`there is no stage ${from}`)
  for (const source of sources) {
    const path = join(origin, source)
    if (!existsSync(path)) throw new Error(`COPY ${instruction.rest}: ${source} is not there`)
    const target = join(to.root, to.workdir, destination)
    const isIntoFolder = destination.endsWith('/') && !statSync(path).isDirectory()
    cpSync(path, isIntoFolder ? join(target, basename(source)) : target, {
      recursive: true,
      verbatimSymlinks: true,
    })
  }
}

function readCommand(instructions: readonly Instruction[], keyword: string): string[] {
  const { rest = '' } = instructions.find((instruction) => instruction.keyword === keyword) ?? {}
  return JSON.parse(rest.slice(rest.indexOf('['))) as string[]
}

// Everything becomes read-only for the process alone, which then gives up being root, as the image's USER says.
const confine = 'mount -o remount,ro,bind / && exec setpriv --reuid 1000 --regid 1000 --clear-groups "$@"'
const confined = ['unshare', '--mount', 'sh', '-c', confine, 'sh']

/** Whether a process can be given a read-only root here, as an engine does: only root may. */
export const canConfine =
  spawnSync(confined[0] ?? '', [...confined.slice(1), 'sh', '-c', '! touch /tmp/quotegate-is-read-only'])
    .status === 0

/** Runs a command in the image as an engine would: as its user and on a read-only root, where that can be had. */
export function runInImage(
  { workingFolder, env }: Image,
  command: readonly string[],
  settings: Readonly<Record<string, string>> = {},
): RunningProgram {
  const [file = '', ...parameters] = canConfine ? [...confined, ...command] : command
  return watchProgram(spawn(file, parameters, { cwd: workingFolder, env: { ...env, ...settings } }))
}
