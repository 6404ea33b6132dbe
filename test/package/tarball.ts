import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { environment } from '../support/machine/environment.ts'

export const root = fileURLToPath(new URL('../..', import.meta.url))

export interface Ran {
  code: number
  stdout: string
  stderr: string
}

/** What a new user has: an empty project with the tarball in it, and nothing of this repository. */
export interface Project {
  readonly folder: string
  readonly tarball: string
  write(files: Record<string, string>): void
  run(
    command: string,
    parameters: readonly string[],
    env?: Record<string, string | undefined>,
  ): Promise<Ran>
  remove(): void
}

/** Packs what `npm run build` has left in dist (npm test does that first) and installs it, with `alongside`. */
export async function installedProject(
  alongside: readonly string[] = [],
): Promise<Project> {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-package-'))
  const run: Project['run'] = (command, parameters, env = {}) =>
    runIn(folder, command, parameters, env)
  const tarball = await pack(folder)
  writeFileSync(
    join(folder, 'package.json'),
    '{ "name": "new-user", "private": true, "type": "module" }',
  )
  await install(folder, [tarball, ...alongside])
  return {
    folder,
    tarball,
    run,
    write(files) {
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(dirname(join(folder, name)), { recursive: true })
        writeFileSync(join(folder, name), text)
      }
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** Without scripts: a build would take away the dist that other tests are running. */
export async function pack(folder: string): Promise<string> {
  const flags = [
    'pack',
    '--ignore-scripts',
    '--loglevel=error',
    '--pack-destination',
    folder,
  ]
  must(await runIn(root, 'npm', flags, allButPath()))
  return join(
    folder,
    readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? 'none.tgz',
  )
}

/** `npm install` of these, beside what the package.json of `folder` asks for. */
export async function install(
  folder: string,
  packages: readonly string[],
): Promise<void> {
  const quietly = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']
  must(await runIn(folder, 'npm', ['install', ...quietly, ...packages], allButPath()))
}

export function runIn(
  folder: string,
  command: string,
  parameters: readonly string[],
  env: Readonly<Record<string, string | undefined>> = {},
): Promise<Ran> {
  const { PATH = '', HOME = '' } = environment()
  const options = {
    cwd: folder,
    env: { PATH: `${dirname(process.execPath)}:${PATH}`, HOME, ...env },
  }
  return new Promise((resolve) => {
    execFile(command, parameters, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1
      resolve({ code, stdout, stderr })
    })
  })
}

/** For npm, whose way to a registry may need proxies, certificates and settings of its own. */
function allButPath(): Record<string, string | undefined> {
  const { PATH, ...rest } = environment()
  return rest
}

function must(ran: Ran): void {
  if (ran.code !== 0) throw new Error(`${ran.stdout}${ran.stderr}`)
}
