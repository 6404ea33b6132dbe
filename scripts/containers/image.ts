import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { productionPackages } from '../production-packages.ts'
import type { Check } from './checks.ts'
import { addressOf, docker, isOk, restricted, runGateway, stateOf, until, withSandbox } from './docker.ts'
import { checkout, order, quoteOf } from './traffic.ts'

const inImage = (entrypoint: string, ...command: string[]) =>
  docker('run', '--rm', ...restricted, '--entrypoint', entrypoint, 'quotegate', ...command)
const becomesHealthy = () => until('healthy', () => stateOf('gateway').Health?.Status === 'healthy')

/** The image as it is to be run. */
export function checkImage(check: Check): Promise<void> {
  return withSandbox(async () => {
    await check('the image runs on the Node that the Dockerfile names, not as root', () => {
      assert.match(inImage('sh', '-c', 'node -v; id -u'), /^v24\.\d+\.\d+\n1000$/)
    })
    await check('it holds the program, its console, its SBOM and its licences, and nothing else', checkFiles)
    await check('it shows the stack of a defect by the lines of the sources', () => {
      // What reads package.json at a start fails.
      const broken =
        'const { parse } = JSON; JSON.parse = (...given) => { if (/"quotegate"/.test(given[0])) throw new Error("a defect"); return parse(...given) }'
      const defect = `data:text/javascript,${encodeURIComponent(broken)}`
      assert.throws(
        () => inImage('node', '--enable-source-maps', '--import', defect, 'dist/main.js'),
        /src\/process\/package-info\.ts:\d+/,
      )
    })
    await check('it does not start without an upstream, since it is for production', () => {
      assert.throws(() => docker('run', '--rm', ...restricted, 'quotegate'), /SWAP_BASE_URL is not set/)
    })
    await check('after kill -9 the next one refuses an order for an expired quote', checkKill)
    docker('rm', '--force', 'gateway')
    await check('on half a core and 128 MiB it serves, writes nothing, and drains on SIGTERM', checkSmall)
  })
}

function checkFiles(): void {
  const files = inImage('sh', '-c', 'find /app -type f | sort').split('\n')
  const ofTheProgram = /^\/app\/dist\/([\w-]+\.js(\.map)?|operations\/console\/[\w-]+\.\w+)$/
  const others = ['LICENSE', 'docs/openapi.json', 'package.json', 'sbom.cdx.json', 'third-party-licences.txt']
  assert.deepEqual(
    files.filter((file) => !ofTheProgram.test(file)),
    others.map((name) => `/app/${name}`),
  )
  const { components } = JSON.parse(inImage('cat', 'sbom.cdx.json')) as { components: unknown[] }
  assert.equal(components.length, productionPackages().length)
}

/** As after a kill by the memory limit: the container goes, the volume stays. */
async function checkKill(): Promise<void> {
  const start = async () => {
    runGateway(
      'gateway',
      '--volume',
      'ledger:/var/lib/quotegate',
      '--env',
      'STATE_DIRECTORY=/var/lib/quotegate',
    )
    await becomesHealthy()
    return `http://${addressOf('gateway')}:8080`
  }
  const quote = await quoteOf(await start())
  await sleep(1_000)
  docker('kill', '--signal', 'KILL', 'gateway')
  docker('rm', '--force', 'gateway')
  const url = await start()
  await until('expired', () => Date.now() > quote.expiry + 2_000)
  await assert.rejects(order(url, quote), /409 .*quote-expired/)
}

async function checkSmall(): Promise<void> {
  runGateway('gateway', '--memory', '128m', '--memory-swap', '128m', '--cpus', '0.5')
  await becomesHealthy()
  const address = addressOf('gateway')
  const url = `http://${address}:8080`
  await order(url, await quoteOf(url))
  await checkout(url)
  assert.equal(docker('diff', 'gateway'), '')
  docker('kill', '--signal', 'TERM', 'gateway')
  await until('no longer ready', async () => !(await isOk(`http://${address}:8081/readyz`)))
  assert.ok(await isOk(`http://${address}:8081/healthz`))
  // A load balancer that has not noticed yet is still served.
  await quoteOf(url)
  await until('ended', () => !stateOf('gateway').Running)
  const { ExitCode, OOMKilled } = stateOf('gateway')
  assert.deepEqual({ ExitCode, OOMKilled }, { ExitCode: 0, OOMKilled: false })
}
