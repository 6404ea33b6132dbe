import assert from 'node:assert/strict'
import type { Check } from './checks.ts'
import { docker, isOk, stateOf, until } from './docker.ts'
import { checkout, order, quoteOf } from './traffic.ts'

const gateway = 'http://127.0.0.1:8080'

const compose = (...parameters: string[]) =>
  docker('compose', '--project-directory', '/repository', '-f', '/repository/compose.yaml', ...parameters)

/** compose.yaml as it is committed, from the images that were built; without Grafana, which has none here. */
function composeUp(): void {
  try {
    compose('up', '--detach', '--no-build', '--wait', '--wait-timeout', '180', 'quotegate', 'prometheus')
  } catch (error) {
    process.stdout.write(`${compose('ps', '--all')}\n${compose('logs', '--tail', '10')}\n`)
    throw error
  }
}

const composeDown = () => compose('down', '--volumes', '--timeout', '2')

export async function checkComposeQuote(check: Check): Promise<void> {
  await check('docker compose up: all become healthy', composeUp)
  await check('a quote', async () => assert.equal((await quoteOf(gateway)).pairId, 'ETH_USDC'))
  composeDown()
}

async function healthsOf(path: string, one: RegExp): Promise<string[]> {
  const answer = await fetch(`http://127.0.0.1:9090/api/v1/${path}`, { signal: AbortSignal.timeout(10_000) })
  return [...(await answer.text()).matchAll(one)].map(([, health = '']) => health)
}

export async function checkCompose(check: Check): Promise<void> {
  await check('docker compose up: all become healthy', composeUp)
  await check('a quote, an order, a checkout', async () => {
    await order(gateway, await quoteOf(gateway))
    await checkout(gateway)
  })
  await check('the store is in use, the console is served, and the sandbox accepts faults', async () => {
    const metrics = await (await fetch('http://127.0.0.1:8081/metrics')).text()
    assert.match(metrics, /^quotegate_store_up 1$/m)
    assert.ok(await isOk('http://127.0.0.1:8081/'))
    assert.ok(await isOk('http://127.0.0.1:8082/sandbox/faults'))
  })
  await check('Prometheus reads the metrics, and can evaluate every rule', () =>
    until('its target is up and all rules are good', async () => {
      const targets = await healthsOf('targets', /"health":"(\w+)"/g)
      const rules = await healthsOf('rules', /"health":"(\w+)"/g)
      assert.deepEqual([...new Set(targets), ...new Set(rules)], ['up', 'ok'])
      return rules.length > 20
    }),
  )
  await check('docker compose stop ends the gateway with code 0', () => {
    compose('stop', 'quotegate')
    assert.equal(stateOf('quotegate-quotegate-1').ExitCode, 0)
  })
  composeDown()
}
