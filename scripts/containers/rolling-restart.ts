import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Check } from './checks.ts'
import { docker, isOk, runContainer, runGateway, stateOf, until, withSandbox } from './docker.ts'
import { Traffic } from './traffic.ts'

const replicas = { left: '172.30.0.11', right: '172.30.0.12' }
const balancer = 'http://127.0.0.1:8000'

/** A load balancer as teams have one: it asks /readyz of the operations port, and sends on what comes. */
const haproxy = `
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
  timeout check 2s
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
export function checkRollingRestart(check: Check): Promise<void> {
  return withSandbox(async () => {
    const images = docker('compose', '-f', '/repository/compose.yaml', 'config', '--images').split('\n')
    const valkey = images.find((name) => name.startsWith('valkey')) ?? ''
    runContainer('valkey', [], [valkey, 'valkey-server', '--save', ''])
    for (const [name, address] of Object.entries(replicas))
      runGateway(name, '--ip', address, '--memory', '256m', '--env', 'VALKEY_URL=redis://valkey:6379')
    writeFileSync('/run/haproxy.cfg', haproxy)
    const proxy = spawn('haproxy', ['-db', '-f', '/run/haproxy.cfg'], { stdio: 'ignore' })
    await check('a rolling restart of two replicas behind haproxy: no request fails', rollingRestart)
    proxy.kill()
  })
}

async function rollingRestart(): Promise<void> {
  for (const address of Object.values(replicas)) await becomesReady(address)
  await until('haproxy serves', () => isOk(`${balancer}/v3/pairs`))
  // Until it has seen both.
  await sleep(2_000)
  const traffic = new Traffic(balancer, 8, 20)
  for (const [name, address] of Object.entries(replicas)) {
    docker('stop', '--time', '35', name)
    assert.equal(stateOf(name).ExitCode, 0)
    docker('start', name)
    await becomesReady(address)
    // Two checks of haproxy, and as many again.
    await sleep(2_000)
  }
  await traffic.stop()
}

const becomesReady = (address: string) => until('ready', () => isOk(`http://${address}:8081/readyz`))
