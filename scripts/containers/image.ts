import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { productionPackages } from '../production-packages.ts'
import type { Check } from './checks.ts'
import {
  addressOf,
  docker,
  isOk,
  removeContainers,
  restricted,
  runContainer,
  stateOf,
  until,
} from './docker.ts'
import { checkout, order, quoteOf } from './traffic.ts'

export const toSandbox = {
  SWAP_BASE_URL: 'http://sandbox:8080',
  PAYMENTS_BASE_URL: 'http://sandbox:8080',
}

const megabytes = (bytes = 0) => `${(bytes / 1_000_000).toFixed(1)} MB`

const shell = ['--entrypoint', 'sh', 'quotegate', '-c']

export function startSandbox(): void {
  runContainer({ name: 'sandbox', settings: { NODE_ENV: 'development' }, command: ['--sandbox'] })
}

/** The image as it is to be run, on half a core and little memory. */
export async function checkImage(check: Check): Promise<void> {
  docker('network', 'create', 'trial')
  startSandbox()
  await check('the image runs on the Node that the Dockerfile names, not as root', () => {
    const said = docker('run', '--rm', ...restricted, ...shell, 'node -v; id -u')
    assert.match(said, /^v24\.\d+\.\d+\n1000$/)
  })
  await check('it holds the program, its console, its SBOM and its licences, and nothing else', () => {
    const files = docker('run', '--rm', ...restricted, ...shell, 'find /app -type f | sort').split('\n')
    const others = files.filter(
      (file) => !/^\/app\/dist\/([\w-]+\.js(\.map)?|operations\/console\/[\w-]+\.\w+)$/.test(file),
    )
    assert.deepEqual(others, [
      '/app/LICENSE',
      '/app/docs/openapi.json',
      '/app/package.json',
      '/app/sbom.cdx.json',
      '/app/third-party-licences.txt',
    ])
    const bytes = (name: string) => Number(docker('image', 'inspect', '--format', '{{.Size}}', name))
    const own = docker('run', '--rm', ...restricted, ...shell, 'du -sb /app | cut -f1; wc -c < sbom.cdx.json')
    const [program, sbom] = own.split('\n').map(Number)
    process.stdout.write(
      `    image ${megabytes(bytes('quotegate'))}, /app ${megabytes(program)}, SBOM ${sbom} bytes\n`,
    )
    const named = docker('run', '--rm', ...restricted, ...shell, 'cat sbom.cdx.json')
    const { components } = JSON.parse(named) as { components: unknown[] }
    process.stdout.write(`    the SBOM names ${components.length} packages\n`)
    assert.equal(components.length, productionPackages().length)
  })
  await check('it shows the stack of a defect by the lines of the sources', () => {
    // What reads package.json at a start fails.
    const broken =
      'const { parse } = JSON; JSON.parse = (...given) => { if (/"quotegate"/.test(given[0])) throw new Error("a defect"); return parse(...given) }'
    const defect = `data:text/javascript,${encodeURIComponent(broken)}`
    const start = ['--enable-source-maps', '--import', defect, 'dist/main.js']
    assert.throws(
      () => docker('run', '--rm', ...restricted, '--entrypoint', 'node', 'quotegate', ...start),
      /src\/process\/package-info\.ts:\d+/,
    )
  })
  await check('it does not start without an upstream, since it is for production', () => {
    assert.throws(() => docker('run', '--rm', ...restricted, 'quotegate'), /SWAP_BASE_URL is not set/)
  })
  await checkKill(check)
  for (const memory of ['128m', '256m']) await checkAt(memory, check)
  removeContainers('sandbox')
  docker('network', 'rm', 'trial')
}

/** As after a kill by the memory limit: the container goes, the volume stays. */
async function checkKill(check: Check): Promise<void> {
  const volume = ['--volume', 'ledger:/var/lib/quotegate']
  const start = async () => {
    const settings = { ...toSandbox, STATE_DIRECTORY: '/var/lib/quotegate' }
    runContainer({ name: 'gateway', flags: [...restricted, ...volume], settings })
    await until('healthy', () => stateOf('gateway').Health?.Status === 'healthy')
    return `http://${addressOf('gateway')}:8080`
  }
  await check(
    'after kill -9 of the container the next one refuses an order for an expired quote',
    async () => {
      const quote = await quoteOf(await start())
      await sleep(1_000)
      docker('kill', '--signal', 'KILL', 'gateway')
      removeContainers('gateway')
      const url = await start()
      await until('expired', () => Date.now() > quote.expiry + 2_000)
      await assert.rejects(order(url, quote), /an order: 409 .*quote-expired/)
    },
  )
  removeContainers('gateway')
  docker('volume', 'rm', '--force', 'ledger')
}

async function checkAt(memory: string, check: Check): Promise<void> {
  const limits = ['--memory', memory, '--memory-swap', memory, '--cpus', '0.5']
  await check(`${memory} and half a core: it becomes healthy, by its own check`, async () => {
    runContainer({ name: 'gateway', flags: [...restricted, ...limits], settings: toSandbox })
    await until('healthy', () => stateOf('gateway').Health?.Status === 'healthy')
  })
  await check(`${memory}: a quote, an order, a checkout`, async () => {
    const url = `http://${addressOf('gateway')}:8080`
    await order(url, await quoteOf(url))
    await checkout(url)
  })
  await check(`${memory}: it writes nothing`, () => assert.equal(docker('diff', 'gateway'), ''))
  await check(`${memory}: on SIGTERM it drains, healthy all the while, and ends with code 0`, async () => {
    const address = addressOf('gateway')
    docker('kill', '--signal', 'TERM', 'gateway')
    await until('no longer ready', async () => !(await isOk(`http://${address}:8081/readyz`)))
    assert.ok(await isOk(`http://${address}:8081/healthz`))
    // A load balancer that has not noticed yet is still served.
    await quoteOf(`http://${address}:8080`)
    await until('ended', () => !stateOf('gateway').Running)
    const { ExitCode, OOMKilled } = stateOf('gateway')
    assert.deepEqual({ ExitCode, OOMKilled }, { ExitCode: 0, OOMKilled: false })
  })
  removeContainers('gateway')
}
