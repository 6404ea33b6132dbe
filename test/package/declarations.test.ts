import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { pack, root, runIn } from './tarball.ts'

// The compiler runs here, on machines that have other things to do.
vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })

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
    cpSync(join(nodeModules, name), join(folder, 'node_modules', name), { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "name": "consumer", "private": true }')
  writeFileSync(join(folder, 'consumer.ts'), consumer)
  writeFileSync(join(folder, 'module.mts'), consumer)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const consumer = `
  import { createServer } from 'node:http'
  import { createGateway, type Gateway, type GatewaySettings, SettingsError, StateError } from 'quotegate'
  import { type Sandbox, SandboxError, startSandbox } from 'quotegate/sandbox'

  export async function use(settings: GatewaySettings): Promise<Gateway> {
    const sandbox: Sandbox = await startSandbox({ quoteLifetimeMs: 50 })
    const gateway = await createGateway({ ...settings, SWAP_BASE_URL: sandbox.url, PORT: 0 }, { logger: console })
    createServer(gateway.app)
    // @ts-expect-error: no setting has this name.
    await createGateway({ SWAP_BASEURL: 'x' })
    // @ts-expect-error: a gateway has no such member.
    gateway.nothing
    return gateway
  }

  export const names = [SettingsError, StateError, SandboxError].map(({ name }) => name)
`

const ofOlderProjects = { ignoreDeprecations: '6.0' }

test.each([
  ['module commonjs', ['consumer.ts'], { module: 'commonjs' }],
  [
    'moduleResolution node',
    ['consumer.ts'],
    { module: 'commonjs', moduleResolution: 'node', ...ofOlderProjects },
  ],
  ['node16', ['consumer.ts', 'module.mts'], { module: 'node16', moduleResolution: 'node16' }],
  ['nodenext', ['consumer.ts', 'module.mts'], { module: 'nodenext', moduleResolution: 'nodenext' }],
  ['bundler', ['consumer.ts', 'module.mts'], { module: 'esnext', moduleResolution: 'bundler' }],
])(
  'the declarations compile, strict and checked themselves, beside the types of Node alone: %s',
  async (name, files, options) => {
    const compilerOptions = {
      target: 'es2022',
      lib: ['es2022'],
      types: ['node'],
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      noEmit: true,
      ...options,
    }
    const project = `${name}.json`
    writeFileSync(join(folder, project), JSON.stringify({ compilerOptions, files }))
    const compiler = join(nodeModules, 'typescript/bin/tsc')
    const { code, stdout, stderr } = await runIn(folder, 'node', [compiler, '-p', project])
    expect(`${code} ${stdout}${stderr}`).toBe('0 ')
  },
)

test('the declarations import nothing but each other and Node', () => {
  const types = join(folder, 'node_modules/quotegate/dist/types')
  const files = readdirSync(types, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.d\.c?ts$/.test(name),
  )
  const imported = files.flatMap((name) => {
    const text = readFileSync(join(types, name), 'utf8')
    const matches = text.matchAll(/ from ['"]([^'"]+)['"];?$|import\(['"]([^'"]+)['"]/gm)
    return [...matches].map(([, path, inType = '']) => path ?? inType)
  })
  expect(imported.length).toBeGreaterThan(5)
  expect(imported.filter((path) => !path.startsWith('.') && !path.startsWith('node:'))).toEqual([])
})
