import { type ChildProcess, spawn } from 'node:child_process'
import type { ServerResponse } from 'node:http'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test, vi } from 'vitest'
import { recordingUpstream, until } from '../support/gateways/between.ts'
import { type RunningProgram, watchProgram } from '../support/gateways/program.ts'
import { environment } from '../support/machine/environment.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

// npm may have to build first.
vi.setConfig({ testTimeout: 180_000 })

/** npm, the shell that it starts, and the program, in a process group of their own, as from a terminal. */
function npmStart(
  flags: readonly string[],
  settings: Record<string, string> = {},
): RunningProgram {
  const { PATH, HOME } = environment()
  const env = { PATH, HOME, PORT: '0', ADMIN_PORT: '0', LOG_FORMAT: 'json', ...settings }
  const npm = spawn('npm', ['start', '--silent', '--', ...flags], {
    cwd: root,
    env,
    detached: true,
  })
  onTestFinished(() => signalGroup(npm, 'SIGKILL'))
  return watchProgram(npm)
}

/** What npm started would outlive it. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) throw new Error('npm did not start')
  try {
    process.kill(-pid, signal)
  } catch (error) {
    // All of it has ended.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** A quote whose upstream answers when the test says so. */
async function startedWithQuoteInFlight() {
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream((_request, response) => waiting.push(response))
  const npm = npmStart([], { SWAP_BASE_URL: upstream.url })
  const [, url] = await npm.says(/"trafficUrl":"(.+?)"/)
  const answer = fetch(`${url}/v3/pairs/ETH_USDC/quotes?amount=0.1`, {
    headers: { 'App-Name': 'tests' },
  })
  await until(() => waiting.length === 1, 'the quote to be asked for')
  return { npm, answer, reply: () => waiting[0]?.writeHead(404).end() }
}

test('npm start passes on the flags and the exit code, and leaves standard output to the program', async () => {
  const good = await npmStart(['--check-config']).exit
  expect([good.code, good.stdout]).toEqual([0, 'No setting is wrong. No warnings.\n'])
  const wrong = await npmStart([], { PORT: 'x' }).exit
  expect([wrong.code, wrong.stdout]).toEqual([1, ''])
  expect(wrong.stderr).toContain('PORT=x')
})

test.each([
  // The shell between npm and the program may die of the signal and not hand it on.
  ['hands on a SIGTERM', 'SIGTERM', (npm: ChildProcess) => void npm.kill('SIGTERM')],
  // The terminal signals npm, the shell and the program, and npm signals again.
  [
    'counts Ctrl-C as one signal',
    'SIGINT',
    (npm: ChildProcess) => signalGroup(npm, 'SIGINT'),
  ],
])(
  'npm start %s: the request in flight is answered, then the program ends',
  async (_what, signal, send) => {
    const { npm, answer, reply } = await startedWithQuoteInFlight()
    send(npm.child)
    await npm.says(new RegExp(`"signal":"${signal}".*"stopping: `))
    // Longer than signals count as one, so that a late one would cut the answer short.
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    reply()
    expect((await answer).status).toBe(404)
    const { stdout } = await npm.exit
    expect(stdout).toMatch(/"stopped"\}\n$/)
    expect(stdout).not.toContain('second signal')
  },
)
