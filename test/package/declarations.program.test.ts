import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { factsOf, settingNames } from '../../src/config/settings.ts'
import { pack, root, runIn } from './tarball.ts'

// The compiler runs here, on machines that have other things to do.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 180_000 })

const consumer = `
  import { createServer } from 'node:http'
  import { createGateway, type Gateway, type GatewayLogger, type GatewaySettings } from 'quotegate'
  import { ListenError, type SettingProblem, SettingsError, StateError } from 'quotegate'
  import { type RecordedRequest, type Sandbox, SandboxError, startSandbox } from 'quotegate/sandbox'

  export async function use(settings: GatewaySettings): Promise<string> {
    await using sandbox: Sandbox = await startSandbox({ quoteLifetimeMs: 50, faults: { latencyMs: 1 } })
    const logger: GatewayLogger = console
    await using gateway: Gateway = await createGateway(
      { ...settings, SWAP_BASE_URL: sandbox.url, PORT: 0, ACCESS_LOG: true, TRUST_PROXY: ['loopback'] },
      { clock: { nowMs: () => Date.now() }, logger: { ...logger, info: () => {} } },
    )
    const urls: { trafficUrl: string; operationsUrl: string } = await gateway.listen()
    for (const listener of [gateway.app, gateway.listener, gateway.operations]) createServer(listener)
    // @ts-expect-error: no setting has this name, and that is found before the program runs.
    await createGateway({ SWAP_BASEURL: 'x' })
    // What an environment has is text.
    await createGateway({ ...process.env })
    const partition: string = 'ip'
    await createGateway({ QUOTE_PARTITION: partition, LOG_LEVEL: undefined, ORDER_EXPIRED_QUOTE: 'report' })
    // @ts-expect-error: no setting takes an object.
    await createGateway({ QUOTE_PARTITION: {} })
    // @ts-expect-error: a gateway has no such member.
    gateway.nothing
    const [first]: RecordedRequest[] = sandbox.requests
    return urls.trafficUrl + first?.headers['app-name'] + (await gateway.metrics())
  }
  /** What an editor suggests: the texts of a type that also takes any other text. */
  type Suggested<Value> = Value extends string ? (string extends Value ? never : Value) : never
  type Partition = Suggested<GatewaySettings['QUOTE_PARTITION']>
  export const partitions: Record<Partition, number> = { ip: 1, header: 2, none: 3 }
  // @ts-expect-error: one is missing.
  export const fewer: Record<Partition, number> = { ip: 1, header: 2 }
  export const free: Suggested<GatewaySettings['SWAP_APP_NAME']>[] = []
  export const problemsOf = (error: SettingsError): readonly SettingProblem[] => error.problems
  export const names = [ListenError, SettingsError, StateError, SandboxError].map(({ name }) => name)
`

const nodeModules = join(root, 'node_modules')
let folder: string

/** A project with what is in the tarball, the types of Node and nothing else: no zod, no Express, none of their types. */
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'quotegate-declarations-'))
  const tarball = await pack(folder)
  const installed = join(folder, 'node_modules/quotegate')
  mkdirSync(installed, { recursive: true })
  await runIn(folder, 'tar', ['-xzf', tarball, '-C', installed, '--strip-components=1'])
  // The types of Node need those of undici.
  for (const name of ['@types/node', 'undici-types'])
    cpSync(join(nodeModules, name), join(folder, 'node_modules', name), {
      recursive: true,
    })
  writeFileSync(join(folder, 'package.json'), '{ "name": "consumer", "private": true }')
  for (const name of ['consumer.ts', 'module.mts'])
    writeFileSync(join(folder, name), consumer)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const kinds = {
  'module commonjs': { files: ['consumer.ts'], module: 'commonjs' },
  // Of older projects, such as one that has ts-jest with its defaults.
  'moduleResolution node': {
    files: ['consumer.ts'],
    module: 'commonjs',
    moduleResolution: 'node',
  },
  node16: {
    files: ['consumer.ts', 'module.mts'],
    module: 'node16',
    moduleResolution: 'node16',
  },
  bundler: {
    files: ['consumer.ts', 'module.mts'],
    module: 'esnext',
    moduleResolution: 'bundler',
  },
}

// In one process, which reads the types of Node once.
test('the declarations compile, strict and checked themselves, beside the types of Node alone, in each kind of project', async () => {
  for (const [name, { files, ...kind }] of Object.entries(kinds)) {
    const compilerOptions = {
      target: 'es2022',
      lib: ['es2022'],
      types: ['node'],
      noEmit: true,
      ignoreDeprecations: '6.0',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      ...kind,
    }
    writeFileSync(
      join(folder, `${name}.json`),
      JSON.stringify({ compilerOptions, files }),
    )
  }
  const projects = Object.keys(kinds).map((name) => `${name}.json`)
  const compiler = join(nodeModules, 'typescript/bin/tsc')
  const { code, stdout, stderr } = await runIn(folder, 'node', [
    compiler,
    '-b',
    '--verbose',
    ...projects,
  ])
  expect(code, stdout + stderr).toBe(0)
  for (const project of projects)
    expect(stdout).toMatch(new RegExp(`Building project '.*${project}'`))
})

test('the declarations say of each setting what it means', () => {
  const types = join(folder, 'node_modules/quotegate/dist/types/gateway/settings.d.cts')
  const text = readFileSync(types, 'utf8').replace(/\n {4,5}\*(?!\/) ?/g, ' ')
  for (const name of settingNames) {
    const { meaning } = factsOf(name)
    const at = text.indexOf(` readonly ${name}?: `)
    expect(at, name).toBeGreaterThan(0)
    expect(text.slice(text.lastIndexOf('/**', at), at)).toContain(meaning)
  }
})

test('the declarations import nothing but each other and Node', () => {
  const types = join(folder, 'node_modules/quotegate/dist/types')
  const all = readdirSync(types, { recursive: true, encoding: 'utf8' })
  const imported = all
    .filter((name) => /\.d\.c?ts$/.test(name))
    .flatMap((name) => {
      const text = readFileSync(join(types, name), 'utf8')
      const matches = text.matchAll(
        / from ['"]([^'"]+)['"];?$|import\(['"]([^'"]+)['"]/gm,
      )
      return [...matches].map(([, path, inType = '']) => path ?? inType)
    })
  expect(imported.length).toBeGreaterThan(5)
  expect(
    imported.filter((path) => !path.startsWith('.') && !path.startsWith('node:')),
  ).toEqual([])
})
