import assert from 'node:assert/strict'
import type { Check } from './checks.ts'
import { docker, isOk, stateOf, until } from './docker.ts'
import { checkout, order, quoteOf } from './traffic.ts'

const gateway = 'http://127.0.0.1:8080'

const compose = (...parameters: string[]) =>
  docker('compose', '--project-directory', '/repository', '-f', '/repository/compose.yaml', ...parameters)

/** compose.yaml as it is committed, from the images that were built. */
function composeUp(): void {
  try {
    compose('up', '--detach', '--no-build', '--wait', '--wait-timeout', '180')
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

interface Targets {
  data: { activeTargets: { health: string; lastError: string }[] }
}
interface Rules {
  data: { groups: { rules: { name: string; health: string; lastError?: string }[] }[] }
}

async function ask<Answer>(url: string): Promise<Answer> {
  return (await (await fetch(url, { signal: AbortSignal.timeout(10_000) })).json()) as Answer
}

export async function checkCompose(check: Check): Promise<void> {
  await check('docker compose up: all become healthy', composeUp)
  await check('a quote, an order, a checkout', async () => {
    await order(gateway, await quoteOf(gateway))
    await checkout(gateway)
  })
  await check('the store is in use', async () => {
    const metrics = await (await fetch('http://127.0.0.1:8081/metrics')).text()
    assert.match(metrics, /^quotegate_store_up 1$/m)
  })
  await check('the console is served', async () => assert.ok(await isOk('http://127.0.0.1:8081/')))
  await check('the sandbox accepts faults', async () =>
    assert.ok(await isOk('http://127.0.0.1:8082/sandbox/faults')),
  )
  await check('Prometheus reads the metrics', () =>
    until('its target is up', async () => {
      const { data } = await ask<Targets>('http://127.0.0.1:9090/api/v1/targets')
      return data.activeTargets.length > 0 && data.activeTargets.every(({ health }) => health === 'up')
    }),
  )
  await check('Prometheus can evaluate every rule', () =>
    until('all rules are good', async () => {
      const { data } = await ask<Rules>('http://127.0.0.1:9090/api/v1/rules')
      const rules = data.groups.flatMap((group) => group.rules)
      assert.deepEqual(
        rules.filter(({ health }) => health === 'err'),
        [],
      )
      return rules.length > 0 && rules.every(({ health }) => health === 'ok')
    }),
  )
  await check("Grafana's stand-in has its mounts, its user and its port", async () => {
    assert.ok(await isOk('http://127.0.0.1:3000/api/health'))
  })
  await check('docker compose stop ends the gateway with code 0', () => {
    compose('stop', 'quotegate')
    assert.equal(stateOf('quotegate-quotegate-1').ExitCode, 0)
  })
  composeDown()
}
