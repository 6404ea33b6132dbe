import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { builtProgram, killPrograms, startProgram } from './support/program.ts'

afterEach(killPrograms)

/** Every file that a program ran until it was stopped: Node's own list for coverage. */
async function filesLoaded(settings: Record<string, string>): Promise<string[]> {
  const directory = mkdtempSync(join(tmpdir(), 'what-a-start-loads-'))
  try {
    const program = startProgram([], {
      ...{ PORT: '0', ADMIN_PORT: '0', DRAIN_DELAY_MS: '0', LOG_FORMAT: 'json' },
      ...{ NODE_V8_COVERAGE: directory, ...settings },
    })
    await program.says(/quotegate is listening/)
    program.child.kill('SIGTERM')
    await program.exit
    return readdirSync(directory).flatMap((name) => {
      const { result }: { result: { url: string }[] } = JSON.parse(
        readFileSync(join(directory, name), 'utf8'),
      )
      return result.map(({ url }) => url)
    })
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

// To find and read the 469 files of the program and its packages took half of a start.
test('a start in production loads the bundled program, and nothing that it has no use for', async () => {
  const files = await filesLoaded({
    NODE_ENV: 'production',
    SWAP_BASE_URL: 'http://127.0.0.1:9',
    PAYMENTS_BASE_URL: 'http://127.0.0.1:9',
  })
  expect(files.filter((file) => file.endsWith('/dist/main.js'))).toHaveLength(1)
  expect(files.filter((file) => /\/node_modules\/|\/dist\/\w+\//.test(file))).toEqual([])
  const needless = /\/dist\/(sandbox|document|text|valkey|pino-pretty|\w+-rate-limiter)-\w+\.js$/
  expect(files.filter((file) => needless.test(file))).toEqual([])
})

test('a start in front of the sandbox loads it', async () => {
  const files = await filesLoaded({})
  expect(files.filter((file) => /\/dist\/sandbox-\w+\.js$/.test(file))).toHaveLength(1)
})

test('what only some starts need is in files of its own', () => {
  const names = readdirSync(dirname(builtProgram)).filter((name) => /-[0-9A-Z]{8}\.js$/.test(name))
  const needed = names.map((name) => name.replace(/-[0-9A-Z]{8}\.js$/, ''))
  expect(new Set(needed)).toEqual(
    new Set([
      ...['chunk', 'document', 'memory-rate-limiter', 'pino-pretty', 'sandbox', 'shared-rate-limiter'],
      ...['text', 'valkey'],
    ]),
  )
})

// docs/decisions/0015 and 0016: without them, collections take ten times as long, or come many times as often.
test('npm start and the image give Node three flags of V8, which this Node knows', () => {
  const fileOf = (name: string) => readFileSync(join(dirname(builtProgram), '..', name), 'utf8')
  const { scripts } = JSON.parse(fileOf('package.json'))
  const flags = ['--no-allocation-site-pretenuring', '--min-semi-space-size=16', '--no-memory-reducer']
  expect(scripts.start).toBe(`exec node ${flags.join(' ')} dist/main.js`)
  const entryPoint = /^ENTRYPOINT (.*)$/m.exec(fileOf('Dockerfile'))?.[1]
  expect(JSON.parse(entryPoint ?? '')).toEqual(['node', '--enable-source-maps', ...flags, 'dist/main.js'])
  const known = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  expect(known).toContain('--allocation-site-pretenuring ')
  expect(known).toContain('--min-semi-space-size ')
  expect(known).toContain('--memory-reducer ')
})
