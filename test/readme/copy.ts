import { execFile, execFileSync, spawn } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { pause } from '../support/gateways/between.ts'
import { type RunningProgram, watchProgram } from '../support/gateways/program.ts'
import { environment } from '../support/machine/environment.ts'
import { freePort } from '../support/machine/free-port.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** What a newcomer has: a copy of the repository, a shell, and two free ports in place of 8080 and 8081. */
export interface Copy {
  directory: string
  /** Runs one command to its end and gives what it wrote; rejects if it fails. */
  run(command: string): Promise<string>
  /** Starts a gateway in the place of the one before it, and waits until it is ready. */
  start(command: string): Promise<void>
  remove(): Promise<void>
}

export async function copyRepository(): Promise<Copy> {
  const directory = mkdtempSync(join(tmpdir(), 'readme-'))
  const files = execFileSync(
    'git',
    ['ls-files', '-z', '--cached', '--others', '--exclude-standard'],
    {
      cwd: root,
    },
  )
  for (const file of files.toString().split('\0')) {
    // Even a link to another folder of packages: npm ci would empty that.
    if (file !== '' && file !== 'node_modules')
      cpSync(join(root, file), join(directory, file))
  }
  const port = await freePort()
  const adminPort = await freePort()
  const here = (command: string) =>
    command.replaceAll(':8080', `:${port}`).replaceAll(':8081', `:${adminPort}`)
  const options = {
    cwd: directory,
    env: { ...ownEnvironment(), PORT: String(port), ADMIN_PORT: String(adminPort) },
  }
  let gateway: RunningProgram | undefined

  async function stop(): Promise<void> {
    if (gateway?.child.pid === undefined || gateway.child.exitCode !== null) return
    // The whole group: npm starts a shell, and the shell the gateway.
    process.kill(-gateway.child.pid, 'SIGTERM')
    await gateway.exit
  }

  return {
    directory,
    async run(command) {
      const { stdout } = await promisify(execFile)(
        'bash',
        ['-euc', here(command)],
        options,
      )
      return stdout
    },
    async start(command) {
      await stop()
      gateway = watchProgram(
        spawn('bash', ['-euc', here(command)], { ...options, detached: true }),
      )
      while (!(await isReady(`http://127.0.0.1:${adminPort}/readyz`))) {
        if (gateway.child.exitCode !== null)
          throw new Error(`${command} ended: ${gateway.stderr()}`)
        await pause(100)
      }
    },
    async remove() {
      await stop()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

async function isReady(url: string): Promise<boolean> {
  return fetch(url).then(
    ({ status }) => status === 200,
    () => false,
  )
}

/** Without what the test runner sets for itself. */
function ownEnvironment(): NodeJS.ProcessEnv {
  const entries = Object.entries(environment())
  return Object.fromEntries(
    entries.filter(([name]) => !/^(?:NODE_ENV|VITEST|npm_|INIT_CWD)/.test(name)),
  )
}
