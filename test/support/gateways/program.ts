import {
  type ChildProcess,
  type ChildProcessWithoutNullStreams,
  spawn,
} from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { environment } from '../machine/environment.ts'
import { environmentWith } from './limits.ts'

export const builtProgram = fileURLToPath(
  new URL('../../../dist/main.js', import.meta.url),
)

export interface Exit {
  code: number | null
  stdout: string
  stderr: string
}

export interface RunningProgram {
  child: ChildProcess
  stdout(): string
  stderr(): string
  /** Resolves once `pattern` stands in either output; rejects if the program ends before. */
  says(pattern: RegExp): Promise<RegExpExecArray>
  exit: Promise<Exit>
}

interface ProgramOptions {
  /** How many it may have open. */
  descriptors?: number
  /** Flags of V8. */
  v8?: readonly string[]
}

/**
 * Starts the built program, for no longer than its test, with these settings alone: of the environment of the tests it
 * has PATH and the lane.
 */
export function startProgram(
  flags: readonly string[],
  settings: Record<string, string> = {},
  { descriptors, v8 = [] }: ProgramOptions = {},
): RunningProgram {
  if (!existsSync(builtProgram))
    throw new Error('dist/main.js is missing: npm run build (npm test does it)')
  const command = [process.execPath, ...v8, builtProgram, ...flags]
  // Node raises its limit to the most it may have, so that has to be lowered, and before it starts.
  const limited = ['sh', '-c', `ulimit -n ${descriptors}; exec "$@"`, 'sh', ...command]
  const [file = '', ...parameters] = descriptors === undefined ? command : limited
  const env = { PATH: environment().PATH, ...environmentWith(settings) }
  const child = spawn(file, parameters, { env })
  onTestFinished(() => void child.kill('SIGKILL'))
  return watchProgram(child)
}

export interface ListeningProgram extends RunningProgram {
  url: string
  operationsUrl: string
}

/** The same on free ports, once it listens, with a log in JSON. */
export async function startListening(
  settings: Record<string, string> = {},
  options?: ProgramOptions,
): Promise<ListeningProgram> {
  const own = { PORT: '0', ADMIN_PORT: '0', LOG_FORMAT: 'json' }
  const program = startProgram([], { ...own, ...settings }, options)
  const [, url = '', operationsUrl = ''] = await program.says(
    /"trafficUrl":"(.+?)","operationsUrl":"(.+?)".*\n/,
  )
  return { ...program, url, operationsUrl }
}

/** Gathers what a program says. */
export function watchProgram(child: ChildProcessWithoutNullStreams): RunningProgram {
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
      child.emit('said')
    })
  }
  const exit = new Promise<Exit>((resolve) => {
    child.once('close', (code) => resolve({ code, ...output }))
  })
  return {
    child,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    exit,
    says: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const found = pattern.exec(output.stdout) ?? pattern.exec(output.stderr)
          if (found) resolve(found)
        }
        child.on('said', look)
        void exit.then(({ stdout, stderr }) =>
          reject(new Error(`it ended first: ${stdout}${stderr}`)),
        )
        look()
      }),
  }
}
