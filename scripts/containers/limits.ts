import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
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
import { startSandbox, toSandbox } from './image.ts'
import { load } from './load.ts'

const distinctQuotes = 100_000

const runs: readonly { memory: string; settings: Record<string, string> }[] = [
  { memory: '128m', settings: { QUOTE_CACHE_ENTRIES: '2000', LEDGER_ENTRIES: '5000' } },
  { memory: '256m', settings: { QUOTE_CACHE_ENTRIES: '20000', LEDGER_ENTRIES: '50000' } },
  { memory: '128m', settings: {} },
  { memory: '256m', settings: {} },
]

/** The image under memory limits, with many times more quotes than it can hold, and POSTs between them. */
export async function checkLimits(check: Check): Promise<void> {
  docker('network', 'create', 'trial')
  for (const { memory, settings } of runs) {
    const given = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
    await check(`${memory}, ${given.join(' ') || 'nothing set'}: it lives`, async () => {
      startSandbox()
      const flags = [...restricted, '--memory', memory, '--memory-swap', memory]
      runContainer({ name: 'gateway', flags, settings: { ...toSandbox, ...settings } })
      const address = addressOf('gateway')
      await until('ready', () => isOk(`http://${address}:8081/readyz`))
      const memoryUse = watchMemory('gateway')
      const { quotes, posts, failures, seconds } = await load(`http://${address}:8080`, distinctQuotes)
      const { peak, last } = await memoryUse.stop()
      print(
        `${quotes} quotes and ${posts} POSTs in ${seconds.toFixed(0)} s; ${peak} MiB at most, ${last} MiB at the end`,
      )
      const { OOMKilled, Running } = stateOf('gateway')
      assert.deepEqual(
        { failures: failures.slice(0, 3), OOMKilled, Running },
        { failures: [], OOMKilled: false, Running: true },
      )
      assert.ok(quotes === distinctQuotes)
    })
    print(caches('gateway'))
    removeContainers('gateway', 'sandbox')
  }
  docker('network', 'rm', 'trial')
}

function print(text: string): void {
  process.stdout.write(`    ${text}\n`)
}

/** The sizes in effect. */
function caches(name: string): string {
  const image = docker('inspect', '--format', '{{json .Config}}', name)
  const { Env, Entrypoint } = JSON.parse(image) as { Env: string[]; Entrypoint: string[] }
  const memory = docker('inspect', '--format', '{{.HostConfig.Memory}}', name)
  const flags = ['--rm', '--memory', memory, ...Env.flatMap((one) => ['--env', one])]
  const [file = '', ...others] = Entrypoint
  const shown = docker('run', ...flags, '--entrypoint', file, 'quotegate', ...others, '--print-config')
  return shown.match(/^(QUOTE_CACHE_ENTRIES|LEDGER_ENTRIES)=.*$/gm)?.join(', ') ?? ''
}

/** What the processes of a container hold, without the pages of files that can be dropped at any time. */
function watchMemory(name: string) {
  const id = docker('inspect', '--format', '{{.Id}}', name)
  const [file, member] = [
    [`/sys/fs/cgroup/memory/quotegate-containers/${id}/memory.stat`, 'rss'] as const,
    [`/sys/fs/cgroup/quotegate-containers/${id}/memory.stat`, 'anon'] as const,
  ].find(([path]) => existsSync(path)) ?? ['', '']
  const mebibytes = () => {
    const stat = readFileSync(file, 'utf8')
    return Math.round(Number(new RegExp(`^${member} (\\d+)$`, 'm').exec(stat)?.[1]) / 2 ** 20)
  }
  const seen = { peak: 0, last: 0 }
  let goesOn = true
  const watching = (async () => {
    while (goesOn && existsSync(file)) {
      seen.last = mebibytes()
      seen.peak = Math.max(seen.peak, seen.last)
      await sleep(100)
    }
  })()
  return {
    stop: async () => {
      goesOn = false
      await watching
      return seen
    },
  }
}
