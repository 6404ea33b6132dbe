import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { freePort } from '../support/machine/free-port.ts'
import { installedProject, type Project, type Ran, root, runIn } from './tarball.ts'

const { version, devDependencies, exports, bin } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
)

// Whole programs run here, on machines that have other things to do.
vi.setConfig({ testTimeout: 180_000 })

let project: Project
let files: string[]
beforeAll(async () => {
  project = await installedProject([`supertest@${devDependencies.supertest}`])
  const listed = await runIn(project.folder, 'tar', ['-tzf', project.tarball])
  files = listed.stdout.trim().split('\n')
}, 180_000)
afterAll(() => project?.remove())

const expectGood = ({ code, stdout, stderr }: Ran) =>
  expect(`${code} ${stdout}${stderr}`).toMatch(/^0 /)
/** Of this repository: what a user's project brings along. */
const tool = (path: string) => join(root, 'node_modules', path)

describe('the tarball', () => {
  test('holds dist, grafana and docs, what npm adds, and nothing else', () => {
    const folders = new Set(files.map((file) => file.split('/')[1]))
    expect([...folders].sort()).toEqual([
      'LICENSE',
      'README.md',
      'dist',
      'docs',
      'grafana',
      'package.json',
    ])
    expect(files.filter((file) => /\.(map|png)$|\.ts$(?<!\.d\.ts)/.test(file))).toEqual(
      [],
    )
    const pointedTo = JSON.stringify([exports, bin]).match(/\.\/[\w./-]+\.\w+/g) ?? []
    expect(
      pointedTo.filter((path) => !files.includes(path.replace('.', 'package'))),
    ).toEqual([])
  })

  test('passes publint, and has the types that an importer finds', async () => {
    const source = `
      import { publint } from ${JSON.stringify(tool('publint/src/index-node.js'))}
      const { messages } = await publint({ pkgDir: 'node_modules/quotegate', strict: true, pack: false })
      console.log(JSON.stringify(messages))
    `
    expect(
      (await project.run('node', ['--input-type=module', '-e', source])).stdout,
    ).toBe('[]\n')
    const attw = tool('@arethetypeswrong/cli/dist/index.js')
    expectGood(await project.run('node', [attw, project.tarball, '--no-emoji']))
  })
})

describe('its entries', () => {
  test('are found by `require` and `import`, which have one of each class, and nothing else is', async () => {
    const program = `
      const required = [require('quotegate'), require('quotegate/sandbox')]
      Promise.all([import('quotegate'), import('quotegate/sandbox')]).then((imported) => {
        const same = required.map((one, index) => Object.keys(one).every((name) => one[name] === imported[index][name]))
        const names = [...required, ...imported].map((one) => Object.keys(one).filter((name) => name !== 'module.exports').sort())
        console.log(names.join(';'), same.join())
        return import('quotegate/dist/app.js')
      }).catch(({ code }) => console.log(code))
    `
    const { stdout, stderr } = await project.run('node', [
      '--input-type=commonjs',
      '-e',
      program,
    ])
    const names =
      'ListenError,SettingsError,StateError,createGateway;SandboxError,startSandbox'
    expect([stdout, stderr]).toEqual([
      `${names};${names} true,true\nERR_PACKAGE_PATH_NOT_EXPORTED\n`,
      '',
    ])
  })

  test('are what the programs of docs/library.md need to do what the page says', async () => {
    const page = readFileSync(join(root, 'docs/library.md'), 'utf8')
    const programs = [...page.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(
      ([, program = '']) => program,
    )
    const said = await Promise.all(
      programs.map(async (program, index) => {
        project.write({ [`library-${index}.js`]: program })
        const { code, stdout, stderr } = await project.run('node', [
          `library-${index}.js`,
        ])
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

test('its operations port has the console, the OpenAPI document and the runbook', async () => {
  const program = `
    import { createGateway } from 'quotegate'
    const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0 })
    const { operationsUrl } = await gateway.listen()
    for (const path of ['/', '/openapi.json', '/runbook', '/runbook.css']) {
      const { status, headers } = await fetch(operationsUrl + path)
      console.log(path, status, headers.get('content-type'))
    }
    await gateway.close()
  `
  const { stdout } = await project.run('node', ['--input-type=module', '-e', program])
  expect(stdout).toBe(
    '/ 200 text/html; charset=utf-8\n/openapi.json 200 application/json; charset=utf-8\n' +
      '/runbook 200 text/html; charset=utf-8\n/runbook.css 200 text/css; charset=utf-8\n',
  )
})

describe('npx quotegate', () => {
  test('prints its version', async () => {
    const ran = await project.run('npx', ['--no-install', 'quotegate', '--version'])
    expect(ran).toMatchObject({ code: 0, stdout: `${version}\n` })
  })

  test.each([
    ['starts', [], '/v3/pairs/ETH_USDC/quotes?amount=1'],
    ['starts the sandbox alone', ['--sandbox'], '/v3/pairs'],
  ])(
    '%s, serves, and stops at a signal',
    { tags: ['curl'] },
    async (_what, flags, path) => {
      const PORT = String(await freePort())
      // Through sh, so that the pid of the program itself is known; npx is a process of its own in front of it.
      const script = `node_modules/.bin/quotegate ${flags.join(' ')} & pid=$!
      for i in $(seq 200); do curl -fs -H 'App-Name: npx' "http://127.0.0.1:$PORT${path}" && break; sleep 0.1; done
      kill -TERM $pid; wait $pid; echo " exit $?"`
      const { stdout } = await project.run('sh', ['-c', script], {
        PORT,
        ADMIN_PORT: '0',
        LOG_LEVEL: 'silent',
      })
      expect(stdout).toMatch(/ETH_USDC[\s\S]* exit 0\n$/)
    },
  )
})
