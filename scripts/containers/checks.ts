/** What is asked of the image and of compose.yaml, from outside. scripts/containers/inside.sh has started Docker. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { productionPackages } from '../production-packages.ts'
import * as run from './docker.ts'
import { checkout, order, quoteOf, traffic } from './traffic.ts'

const { becomesReady, docker, isOk, stateOf, until } = run

const inImage = (entrypoint: string, ...command: string[]) =>
  docker(
    'run',
    '--rm',
    ...run.restricted,
    '--entrypoint',
    entrypoint,
    'quotegate',
    ...command,
  )

const one = '172.30.0.11'
const url = `http://${one}:8080`

/** The image as it is to be run. */
async function checkImage(): Promise<void> {
  await test('the image runs on its Node, not as root, with the program, SBOM and licences alone', () => {
    assert.match(inImage('sh', '-c', 'node -v; id -u'), /^v26\.\d+\.\d+\n1000$/)
    const files = inImage('find', '.', '-type', 'f').split('\n')
    const ofTheProgram =
      /^\.\/dist\/([\w-]+\.js(\.map)?|operations\/console\/[\w-]+\.\w+)$/
    const others = files
      .filter((file) => !ofTheProgram.test(file))
      .map((file) => file.slice('./'.length))
    const expected =
      'LICENSE docs/openapi.json docs/runbook.md package.json sbom.cdx.json third-party-licences.txt'
    assert.equal(others.sort().join(' '), expected)
    const { components } = JSON.parse(inImage('cat', 'sbom.cdx.json')) as {
      components: unknown[]
    }
    assert.equal(components.length, productionPackages().length)
  })
  await test('it shows the stack of a defect by the lines of the sources', () => {
    // What reads package.json at a start fails.
    const broken = `const { parse } = JSON
      JSON.parse = (text) => { if (/"quotegate"/.test(text)) throw new Error('a defect'); return parse(text) }`
    const defect = `data:text/javascript,${encodeURIComponent(broken)}`
    assert.throws(
      () => inImage('node', '--enable-source-maps', '--import', defect, 'dist/main.js'),
      /src\/process\/package-info\.ts:\d+/,
    )
  })
  await test('after kill -9 the next one refuses an order for an expired quote', async () => {
    const start = async () => {
      const folder = '/var/lib/quotegate'
      run.gateway(
        'gateway',
        one,
        `--volume=ledger:${folder}`,
        `--env=STATE_DIRECTORY=${folder}`,
      )
      await becomesReady(one)
    }
    await start()
    const quote = await quoteOf(url)
    await sleep(1_000)
    // As after a kill by the memory limit: the container goes, the volume stays.
    docker('rm', '--force', 'gateway')
    await start()
    await until('expired', () => Date.now() > quote.expiry + 2_000)
    await assert.rejects(order(url, quote), /409 .*quote-expired/)
  })
  docker('rm', '--force', 'gateway')
  await test('on half a core and 128 MiB it serves, writes nothing, and drains on SIGTERM', async () => {
    run.gateway('gateway', one, '--memory=128m', '--memory-swap=128m', '--cpus=0.5')
    await becomesReady(one)
    await order(url, await quoteOf(url))
    await checkout(url)
    assert.ok(await isOk(`http://${one}:8081/runbook`))
    assert.equal(docker('diff', 'gateway'), '')
    docker('kill', '--signal', 'TERM', 'gateway')
    await until('no longer ready', async () => !(await isOk(`http://${one}:8081/readyz`)))
    // A load balancer that has not noticed yet is still served.
    await quoteOf(url)
    await until('ended', () => stateOf('gateway') === 'exited 0 false')
  })
}

const replicas = { left: one, right: '172.30.0.12' }

/** A load balancer as teams have one: it asks /readyz of the operations port, and sends on what comes. */
const haproxy = `
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
  timeout check 2s
listen replicas
  bind 127.0.0.1:8000
  option httpchk GET /readyz
  default-server check port 8081 inter 500 fall 2 rise 2
  server left ${replicas.left}:8080
  server right ${replicas.right}:8080
`

/** Two replicas behind a load balancer are replaced one after the other, while quotes and orders go on. */
async function checkRollingRestart(): Promise<void> {
  const [valkey = ''] = /^valkey.*$/m.exec(compose('config', '--images')) ?? []
  run.container('valkey', [], [valkey, 'valkey-server', '--save', ''])
  for (const [name, address] of Object.entries(replicas))
    run.gateway(name, address, '--memory=256m', '--env=VALKEY_URL=redis://valkey:6379')
  writeFileSync('/run/haproxy.cfg', haproxy)
  const proxy = spawn('haproxy', ['-db', '-f', '/run/haproxy.cfg'], { stdio: 'ignore' })
  await test('a rolling restart of two replicas behind haproxy: no request fails', async () => {
    for (const address of Object.values(replicas)) await becomesReady(address)
    await until('haproxy serves', () => isOk('http://127.0.0.1:8000/v3/pairs'))
    // Until it has seen both.
    await sleep(2_000)
    let isOver = false
    const failures = traffic('http://127.0.0.1:8000', 8, 20, () => !isOver)
    try {
      for (const [name, address] of Object.entries(replicas)) {
        docker('stop', '--time', '35', name)
        assert.match(stateOf(name), /^exited 0 /)
        docker('start', name)
        await becomesReady(address)
        // Two checks of haproxy, and as many again.
        await sleep(2_000)
      }
    } finally {
      isOver = true
    }
    assert.deepEqual(await failures, [])
  })
  proxy.kill()
}

/** The image under memory limits, with many times more quotes than it can hold, and POSTs between them. */
async function checkLimits(): Promise<void> {
  for (const memory of ['128m', '256m']) {
    await test(`${memory}: it lives`, async () => {
      run.gateway('gateway', one, '--memory', memory, '--memory-swap', memory)
      await becomesReady(one)
      const failures = await traffic(url, 32, 0, (quotes) => quotes < 50_000)
      assert.deepEqual([failures, stateOf('gateway')], [[], 'running 0 false'])
    })
    docker('rm', '--force', 'gateway')
  }
}

function compose(...parameters: string[]): string {
  const project = ['--project-directory', '/repository', '-f', '/repository/compose.yaml']
  return docker('compose', ...project, ...parameters)
}

/** compose.yaml as it is committed, from the images that were built; without Grafana, which has none here. */
async function checkCompose(): Promise<void> {
  await test('docker compose up: all become healthy', () => {
    try {
      compose(
        'up',
        '--detach',
        '--no-build',
        '--wait',
        '--wait-timeout',
        '180',
        'quotegate',
        'prometheus',
      )
    } catch (cause) {
      throw new Error(`${compose('ps', '--all')}\n${compose('logs', '--tail', '10')}`, {
        cause,
      })
    }
  })
  await test('a quote, an order, a checkout; the store, the console, the faults of the sandbox', async () => {
    const published = 'http://127.0.0.1:8080'
    await order(published, await quoteOf(published))
    await checkout(published)
    const metrics = await (await fetch('http://127.0.0.1:8081/metrics')).text()
    assert.match(metrics, /^quotegate_store_up 1$/m)
    assert.ok(await isOk('http://127.0.0.1:8081/'))
    assert.ok(await isOk('http://127.0.0.1:8082/sandbox/faults'))
  })
  const healthsOf = async (path: string): Promise<string[]> => {
    const answer = await fetch(`http://127.0.0.1:9090/api/v1/${path}`)
    return (await answer.text()).match(/"health":"\w+"/g) ?? []
  }
  await test('Prometheus reads the metrics, and can evaluate every rule', () =>
    until('its target is up and all rules are good', async () => {
      const [targets, rules] = [await healthsOf('targets'), await healthsOf('rules')]
      assert.deepEqual(
        [...new Set([...targets, ...rules])],
        ['"health":"up"', '"health":"ok"'],
      )
      return rules.length > 20
    }))
  await test('docker compose stop ends the gateway with code 0', () => {
    compose('stop', 'quotegate')
    assert.match(stateOf('quotegate-quotegate-1'), /^exited 0 /)
  })
  compose('down', '--volumes', '--timeout', '2')
}

const which = process.argv[2]
if (which === 'limits') await run.withSandbox(checkLimits)
else {
  if (which !== 'quick')
    for (const part of [checkImage, checkRollingRestart]) await run.withSandbox(part)
  await checkCompose()
}
