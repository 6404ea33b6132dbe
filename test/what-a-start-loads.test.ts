import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { killPrograms, startProgram } from './support/program.ts'

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

const ofTheSandbox = /\/dist\/sandbox\//

// Each of these once made a start slower: a file that is loaded costs about a millisecond.
test('a start in production loads nothing that it has no use for', async () => {
  const files = await filesLoaded({
    NODE_ENV: 'production',
    SWAP_BASE_URL: 'http://127.0.0.1:9',
    PAYMENTS_BASE_URL: 'http://127.0.0.1:9',
  })
  expect(files.filter((file) => file.endsWith('/undici/lib/dispatcher/client.js'))).toHaveLength(1)
  const needless = [
    ofTheSandbox,
    /\/dist\/(openapi|settings\/text)/,
    /\/node_modules\/(pino-pretty|ioredis|rate-limiter-flexible)\//,
    /\/node_modules\/undici\/(index\.js$|lib\/(web|mock|cache|interceptor)\/)/,
  ]
  expect(files.filter((file) => needless.some((pattern) => pattern.test(file)))).toEqual([])
})

test('a start in front of the sandbox loads it', async () => {
  expect((await filesLoaded({})).filter((file) => ofTheSandbox.test(file))).not.toEqual([])
})
