import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Check } from './checks.ts'
import { docker, isOk, removeContainers, restricted, runContainer, stateOf, until } from './docker.ts'
import { startSandbox, toSandbox } from './image.ts'
import { order, quoteOf } from './traffic.ts'

const replicas = { left: '172.30.0.11', right: '172.30.0.12' }
const balancer = 'http://127.0.0.1:8000'

/** A load balancer as teams have one: it asks /readyz of the operations port, and sends on what comes. */
const haproxy = `
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
frontend traffic
  bind 127.0.0.1:8000
  default_backend replicas
backend replicas
  option httpchk GET /readyz
${Object.entries(replicas)
  .map(([name, address]) => `  server ${name} ${address}:8080 check port 8081 inter 500 fall 2 rise 2`)
  .join('\n')}
`

/** Two replicas behind a load balancer are replaced one after the other, while quotes and orders go on. */
export async function checkRollingRestart(check: Check): Promise<void> {
  docker('network', 'create', '--subnet', '172.30.0.0/24', 'trial')
  startSandbox()
  const image = docker('compose', '-f', '/repository/compose.yaml', 'config', '--images')
    .split('\n')
    .find((name) => name.startsWith('valkey'))
  runContainer({ name: 'valkey', image: image ?? '', command: ['valkey-server', '--save', ''] })
  for (const [name, address] of Object.entries(replicas)) {
    const settings = { ...toSandbox, VALKEY_URL: 'redis://valkey:6379' }
    runContainer({ name, flags: [...restricted, '--ip', address, '--memory', '256m'], settings })
  }
  writeFileSync('/run/haproxy.cfg', haproxy)
  const proxy = spawn('haproxy', ['-db', '-f', '/run/haproxy.cfg'], { stdio: ['ignore', 'ignore', 'ignore'] })
  await check('a rolling restart of two replicas behind haproxy: no request fails', rollingRestart)
  proxy.kill()
  removeContainers('sandbox', 'valkey', ...Object.keys(replicas))
  docker('network', 'rm', 'trial')
}

async function rollingRestart(): Promise<void> {
  for (const address of Object.values(replicas)) await becomesReady(address)
  await until('haproxy serves', () => isOk(`${balancer}/v3/pairs`))
  const traffic = startTraffic()
  for (const [name, address] of Object.entries(replicas)) {
    docker('stop', '--time', '35', name)
    assert.equal(stateOf(name).ExitCode, 0)
    docker('start', name)
    await becomesReady(address)
    // Two checks of haproxy, and as many again.
    await sleep(2_000)
  }
  const { quotes, orders, failures } = await traffic.stop()
  process.stdout.write(`    ${quotes} quotes and ${orders} orders, ${failures.length} failed\n`)
  assert.deepEqual(failures.slice(0, 5), [])
  assert.ok(quotes > 100 && orders > 10)
}

const becomesReady = (address: string) => until('ready', () => isOk(`http://${address}:8081/readyz`))

function startTraffic() {
  const counted = { quotes: 0, orders: 0, failures: [] as string[] }
  let goesOn = true
  const client = async (own: number) => {
    for (let turn = 1; goesOn; turn += 1) {
      // No other client has this amount, so that no other client's order uses up the quote.
      const amount = `${own}.${turn}1`
      try {
        const quote = await quoteOf(balancer, amount)
        counted.quotes += 1
        if (turn % 5 === 0) {
          await order(balancer, quote, amount)
          counted.orders += 1
        }
      } catch (error) {
        counted.failures.push(String(error))
      }
      await sleep(20)
    }
  }
  const clients = Array.from({ length: 8 }, (_, index) => client(index + 1))
  const stop = async () => {
    goesOn = false
    await Promise.all(clients)
    return counted
  }
  return { stop }
}
