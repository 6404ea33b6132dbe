import { execFileSync } from 'node:child_process'
import { openSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { builtProgram, startProgram } from '../support/gateways/program.ts'
import { newFolder } from '../support/machine/new-folder.ts'

/** Every file that a program ran until it was stopped: Node's own list for coverage. */
async function filesLoaded(
  settings: Record<string, string>,
  flags: string[] = [],
): Promise<string[]> {
  const directory = newFolder()
  const program = startProgram(flags, {
    PORT: '0',
    ADMIN_PORT: '0',
    DRAIN_DELAY_MS: '0',
    LOG_FORMAT: 'json',
    NODE_V8_COVERAGE: directory,
    ...settings,
  })
  if (flags.length === 0) {
    await program.says(/quotegate is listening/)
    program.child.kill('SIGTERM')
  }
  await program.exit
  return readdirSync(directory).flatMap((name) => {
    const { result }: { result: { url: string }[] } = JSON.parse(
      readFileSync(join(directory, name), 'utf8'),
    )
    return result.map(({ url }) => url)
  })
}

// To find and read the 469 files of the program and its packages took half of a start.
test('a startup in production loads the bundled program, and no unused file', async () => {
  const upstreams = {
    SWAP_BASE_URL: 'http://127.0.0.1:9',
    PAYMENTS_BASE_URL: 'http://127.0.0.1:9',
  }
  const files = await filesLoaded({ NODE_ENV: 'production', ...upstreams })
  expect(files.filter((file) => file.endsWith('/dist/main.js'))).toHaveLength(1)
  expect(files.filter((file) => /\/node_modules\/|\/dist\/\w+\//.test(file))).toEqual([])
  // Each is a file of its own, which a start that needs it loads.
  const needless =
    'sandbox help valkey disk otlp pino-pretty shared-rate-limit shared-keys stream'
  const built = readdirSync(dirname(builtProgram))
  for (const name of needless.split(' ')) {
    const isIt = (file: string) =>
      new RegExp(`^${name}-[0-9A-Z]{8}\\.js$`).test(basename(file))
    expect(built.filter(isIt), name).toHaveLength(1)
    expect(files.filter(isIt), name).toEqual([])
  }
})

test('the packages of OpenTelemetry are loaded where OTEL_EXPORTER_OTLP_ENDPOINT is set, and nowhere else', async () => {
  const otlp = (files: string[]) =>
    files.filter((file) => /\/dist\/otlp-\w+\.js$/.test(file))
  const others = {
    OTEL_SERVICE_NAME: 'gate',
    OTEL_TRACES_SAMPLER: 'always_on',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:9',
  }
  const without = await filesLoaded(others)
  expect(without.length).toBeGreaterThan(0)
  expect(otlp(without)).toEqual([])
  expect(without.filter((file) => file.includes('opentelemetry'))).toEqual([])
  expect(
    otlp(
      await filesLoaded({ ...others, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' }),
    ),
  ).toHaveLength(1)
})

// It runs every few seconds beside a gateway that may have 128 MiB for both.
test('a health check loads hardly any file', async () => {
  const files = await filesLoaded({}, ['--check-health', 'http://127.0.0.1:9/'])
  const loaded = files
    .filter((file) => file.startsWith('file:'))
    .map((file) => readFileSync(new URL(file)))
  expect(loaded.length).toBeGreaterThan(0)
  expect(Buffer.concat(loaded).length).toBeLessThan(10_000)
})

/** Asked what its flags are, V8 tells the values in effect; into a file, since it does not wait for a slow pipe. */
function flagsInEffect(): string[] {
  const tellFlags = `
    import v8 from 'node:v8'
    process.on('exit', () => v8.setFlagsFromString('--help'))`
  const preload = `data:text/javascript,${encodeURIComponent(tellFlags)}`
  const told = join(newFolder(), 'flags')
  execFileSync(process.execPath, ['--import', preload, builtProgram, '--version'], {
    stdio: ['ignore', openSync(told, 'w'), 'inherit'],
  })
  return [...readFileSync(told, 'utf8').matchAll(/^ +type: .* default: (\S+)$/gm)].map(
    ([, flag]) => flag ?? '',
  )
}

// docs/decisions/0015: without them, collections take ten times as long, or come many times as often.
test("V8 gets the gateway's flags, however the program is started", () => {
  const ours = ['--no-allocation-site-pretenuring', '--semi-space-growth-factor=16']
  const more = ['--no-memory-reducer', '--heap-growing-percent=300']
  expect(flagsInEffect()).toEqual(expect.arrayContaining([...ours, ...more]))
})
