import assert from 'node:assert/strict'
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
  await check('it does not start without an upstream, since it is for production', () => {
    assert.throws(() => docker('run', '--rm', ...restricted, 'quotegate'), /SWAP_BASE_URL is not set/)
  })
  for (const memory of ['128m', '256m']) await checkAt(memory, check)
  removeContainers('sandbox')
  docker('network', 'rm', 'trial')
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
