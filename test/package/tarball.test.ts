import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { freePort } from '../support/machine/free-port.ts'
import { installedProject, type Project, type Ran, root, runIn } from './tarball.ts'

const { version, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

// Whole programs run here, the compiler among them, on machines that have other things to do.
vi.setConfig({ testTimeout: 180_000 })

let project: Project
let files: string[]
beforeAll(async () => {
  const node = `@types/node@${devDependencies['@types/node']}`
  project = await installedProject([`supertest@${devDependencies.supertest}`, node])
  const listed = await runIn(project.folder, 'tar', ['-tzf', project.tarball])
  files = listed.stdout.trim().split('\n')
}, 180_000)
afterAll(() => project?.remove())

const expectGood = ({ code, stdout, stderr }: Ran) => expect(`${code} ${stdout}${stderr}`).toMatch(/^0 /)
/** Of this repository: what a user's project brings along. */
const tool = (path: string) => join(root, 'node_modules', path)

describe('the tarball', () => {
  test('holds dist, grafana and docs, what npm adds, and nothing else', () => {
    const folders = new Set(files.map((file) => file.split('/')[1]))
    expect([...folders].sort()).toEqual(['LICENSE', 'README.md', 'dist', 'docs', 'grafana', 'package.json'])
    expect(files.filter((file) => /\.(map|png)$|\.ts$(?<!\.d\.ts)/.test(file))).toEqual([])
  })

  test('has everything that its own package.json points to', () => {
    const { exports, bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    const pointedTo = JSON.stringify([exports, bin]).match(/\.\/[\w./-]+\.\w+/g) ?? []
    expect(pointedTo.length).toBeGreaterThan(5)
    expect(pointedTo.filter((path) => !files.includes(path.replace('.', 'package')))).toEqual([])
  })

  test('passes publint', async () => {
    const source = `
      import { publint } from ${JSON.stringify(tool('publint/src/index-node.js'))}
      const { messages } = await publint({ pkgDir: 'node_modules/quotegate', strict: true, pack: false })
      console.log(JSON.stringify(messages))
    `
    expect((await project.run('node', ['--input-type=module', '-e', source])).stdout).toBe('[]\n')
  })

  test('has the types that an importer finds', async () => {
    const attw = tool('@arethetypeswrong/cli/dist/index.js')
    expectGood(await project.run('node', [attw, project.tarball, '--no-emoji']))
  })
})

describe('its types', () => {
  const source = `
    import { createServer } from 'node:http'
    import { createGateway, type Gateway, type GatewayLogger, ListenError, SettingsError } from 'quotegate'
    import { type RecordedRequest, type Sandbox, startSandbox } from 'quotegate/sandbox'

    async function use(): Promise<string> {
      await using sandbox: Sandbox = await startSandbox({ quoteLifetimeMs: 60_000, faults: { latencyMs: 1 } })
      const logger: GatewayLogger = console
      await using gateway: Gateway = await createGateway(
        {
          ...{ SWAP_BASE_URL: sandbox.url, PORT: 0, ADMIN_PORT: 0, ACCESS_LOG: true },
          ...{ TRUST_PROXY: ['loopback'], CLIENT_IP_HEADER: 'forwarded', CLIENT_CONNECTIONS: 1000 },
        },
        { clock: { nowMs: () => Date.now() }, logger: { ...logger, info: () => {}, debug: () => {} } },
      )
      const { trafficUrl } = await gateway.listen()
      createServer(gateway.listener).close()
      createServer(gateway.operations).close()
      const headers = { 'App-Name': 'strict' }
      const answer = await fetch(trafficUrl + '/v3/pairs/ETH_USDC/quotes?amount=1', { headers })
      const [first]: RecordedRequest[] = sandbox.requests
      const page: string = await gateway.metrics()
      return [answer.status, first?.headers['app-name'], page.length > 0].join()
    }

    async function main(): Promise<void> {
      const problems = await createGateway({ PORT: -1 }).catch((error: unknown) =>
        error instanceof SettingsError ? error.problems.map(({ name, value, expected }) => [name, value, expected]) : [],
      )
      // @ts-expect-error: no setting has this name, and that is found before the program runs.
      await createGateway({ SWAP_BASEURL: 'x' }).catch(() => {})
      console.log(await use(), Array.isArray(problems) && problems[0]?.[0], new ListenError('x').name)
    }
    void main()
  `
  const compilerOptions = {
    target: 'es2022',
    lib: ['es2023'],
    types: ['node'],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    rootDir: '.',
  }

  test.each([
    ['nodenext', 'nodenext', ['strict.ts', 'strict.cts']],
    ['esnext', 'bundler', ['strict.ts']],
    // Of older projects, such as one that has ts-jest with its defaults.
    ['commonjs', 'node10', ['strict.cts']],
  ])(
    'compile in a strict program without @types/express: module %s, resolution %s, %s, and it runs',
    async (module, moduleResolution, names) => {
      const outDir = `out-${module}`
      const options = { ...compilerOptions, outDir, module, moduleResolution, ignoreDeprecations: '6.0' }
      project.write({
        ...Object.fromEntries(names.map((name) => [name, source])),
        [`${module}.json`]: JSON.stringify({ compilerOptions: options, files: names }),
      })
      expectGood(await project.run('node', [tool('typescript/bin/tsc'), '-p', `${module}.json`]))
      for (const name of names) {
        const { stdout, stderr } = await project.run('node', [join(outDir, name.replace('ts', 'js'))])
        expect([stdout, stderr]).toEqual(['200,strict,true PORT ListenError\n', ''])
      }
    },
  )

  test('are found by `require` too, and both module systems have one of each class', async () => {
    const program = `
      const required = [require('quotegate'), require('quotegate/sandbox')]
      Promise.all([import('quotegate'), import('quotegate/sandbox')]).then((imported) => {
        const same = required.map((one, index) => Object.keys(one).every((name) => one[name] === imported[index][name]))
        const names = required.map((one) => Object.keys(one).sort())
        console.log(names.join(';'), same.join())
      })
    `
    const { stdout, stderr } = await project.run('node', ['--input-type=commonjs', '-e', program])
    const names = 'ListenError,SettingsError,StateError,createGateway;SandboxError,startSandbox'
    expect([stdout, stderr]).toEqual([`${names} true,true\n`, ''])
  })

  test('are those of the entries alone', async () => {
    const imported = await project.run('node', [
      '--input-type=module',
      '-e',
      "import 'quotegate/dist/app.js'",
    ])
    expect(imported.stderr).toContain('ERR_PACKAGE_PATH_NOT_EXPORTED')
    const names =
      "console.log([Object.keys(await import('quotegate')), Object.keys(await import('quotegate/sandbox'))].join(';'))"
    const { stdout } = await project.run('node', ['--input-type=module', '-e', names])
    expect(stdout).toBe('ListenError,SettingsError,StateError,createGateway;SandboxError,startSandbox\n')
  })
})

describe('docs/library.md', () => {
  const page = readFileSync(join(root, 'docs/library.md'), 'utf8')
  const programs = [...page.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, program = '']) => program)

  test('has programs that do what the page says', async () => {
    const said = await Promise.all(
      programs.map(async (program, index) => {
        project.write({ [`library-${index}.js`]: program })
        const { code, stdout, stderr } = await project.run('node', [`library-${index}.js`])
        return `${code} ${stderr}${stdout.trim()}`
      }),
    )
    expect(said).toEqual([
      '0 ETH_USDC',
      expect.stringMatching(/^0 PORT 70000 .+\nSWAP_BASEURL \*\*\*\* SWAP_BASE_URL/),
      '0 200',
      '0 409 10000',
    ])
  })
})

describe('npx quotegate', () => {
  const quotegate = (flags: string[], settings?: Record<string, string>) =>
    project.run('npx', ['--no-install', 'quotegate', ...flags], settings)

  test('prints its version, its settings, and whether they are valid', async () => {
    expect(await quotegate(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n` })
    expect((await quotegate(['--help'])).stdout).toContain('Usage: quotegate [flag]')
    expect((await quotegate(['--print-config'], { PORT: '1234' })).stdout).toContain(
      'PORT=1234  (environment)',
    )
    expect((await quotegate(['--check-config'])).stdout).toBe('The settings are good.\n')
    expect((await quotegate(['--check-config'], { PORT: 'x' })).code).toBe(1)
    const wrong = await quotegate(['--check-confg'])
    expect(wrong.code).toBe(1)
    expect(wrong.stderr).toContain('Did you mean --check-config?')
  })

  test.each([
    ['starts', [], '/v3/pairs/ETH_USDC/quotes?amount=1'],
    ['starts the sandbox alone', ['--sandbox'], '/v3/pairs'],
  ])('%s, serves, and stops at a signal', { tags: ['curl'] }, async (_what, flags, path) => {
    const PORT = String(await freePort())
    // Through sh, so that the pid of the program itself is known; npx is a process of its own in front of it.
    const script = `node_modules/.bin/quotegate ${flags.join(' ')} & pid=$!
      for i in $(seq 200); do curl -fs -H 'App-Name: npx' "http://127.0.0.1:$PORT${path}" && break; sleep 0.1; done
      kill -TERM $pid; wait $pid; echo " exit $?"`
    const { stdout } = await project.run('sh', ['-c', script], { PORT, ADMIN_PORT: '0', LOG_LEVEL: 'silent' })
    expect(stdout).toMatch(/ETH_USDC[\s\S]* exit 0\n$/)
  })
})
