import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Check } from './checks.ts'
import { addressOf, docker, isOk, runGateway, stateOf, until, withSandbox } from './docker.ts'
import { Traffic } from './traffic.ts'

const distinctQuotes = 50_000
const progressEveryMs = 1_000

/** The image under memory limits, with many times more quotes than it can hold, and POSTs between them. */
export function checkLimits(check: Check): Promise<void> {
  return withSandbox(async () => {
    for (const memory of ['128m', '256m']) {
      await check(`${memory}: it lives`, async () => {
        runGateway('gateway', '--memory', memory, '--memory-swap', memory)
        const address = addressOf('gateway')
        await until('ready', () => isOk(`http://${address}:8081/readyz`))
        const traffic = new Traffic(`http://${address}:8080`, 32, 0)
        let peakBytes = 0
        while (
          traffic.quotes < distinctQuotes &&
          traffic.failures.length === 0 &&
          stateOf('gateway').Running
        ) {
          await sleep(progressEveryMs)
          peakBytes = Math.max(peakBytes, await residentBytes(address))
        }
        await traffic.stop()
        process.stdout.write(`    ${Math.round(peakBytes / 2 ** 20)} MiB resident at most\n`)
        const { OOMKilled, Running } = stateOf('gateway')
        assert.deepEqual({ OOMKilled, Running }, { OOMKilled: false, Running: true })
      })
      docker('rm', '--force', 'gateway')
    }
  })
}

async function residentBytes(address: string): Promise<number> {
  const page = await (await fetch(`http://${address}:8081/metrics`)).text()
  return Number(/^process_resident_memory_bytes (\S+)$/m.exec(page)?.[1])
}
