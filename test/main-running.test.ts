import { spawnSync } from 'node:child_process'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { killPrograms, startProgram } from './support/gateways/program.ts'

afterEach(killPrograms)

const freePorts = { PORT: '0', ADMIN_PORT: '0' }

async function startGateway(settings: Record<string, string> = {}) {
  const program = startProgram([], { ...freePorts, LOG_FORMAT: 'json', ...settings })
  const found = await program.says(/"trafficUrl":"(.+?)","operationsUrl":"(.+?)"/)
  return { program, trafficUrl: found[1] ?? '', operationsUrl: found[2] ?? '' }
}

describe('a gateway that was started', () => {
  test('prints the ports that it took for PORT=0, and serves on them', async () => {
    const { trafficUrl, operationsUrl } = await startGateway()
    expect(trafficUrl).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*$/)
    const quote = await fetch(`${trafficUrl}/v3/pairs/ETH_USDC/quotes?amount=0.1`, {
      headers: { 'App-Name': 'tests' },
    })
    expect([quote.status, quote.headers.get('sandbox')]).toEqual([200, 'quotegate'])
    expect((await fetch(`${operationsUrl}/readyz`)).status).toBe(200)
    expect((await fetch(`${operationsUrl}/healthz`)).status).toBe(200)
  })

  test('counts requests and names its version in its metrics', async () => {
    const { trafficUrl, operationsUrl } = await startGateway()
    await (await fetch(`${trafficUrl}/v3/pairs`)).text()
    const metrics = await (await fetch(`${operationsUrl}/metrics`)).text()
    expect(metrics).toMatch(/^quotegate_build_info\{version=".+",node_version="v.+"\} 1$/m)
    expect(metrics).toContain('quotegate_http_requests_total{route="swap",method="GET",status_class="2xx"} 1')
  })

  test('says nothing of the sandbox where there is none', async () => {
    const { program } = await startGateway({ SWAP_BASE_URL: 'http://127.0.0.1:9' })
    expect(program.stderr()).toBe('')
    expect(program.stdout()).not.toContain('sandbox')
  })

  test('warns of a setting that is nearly one, and starts', async () => {
    const { program } = await startGateway({ SWAP_APPNAME: 'tests' })
    expect(program.stdout()).toContain('SWAP_APPNAME is not a setting. Did you mean SWAP_APP_NAME?')
  })
})

describe('the banner', () => {
  const hasCurl = spawnSync('curl', ['--version']).status === 0
  test.skipIf(!hasCurl)(
    `has lines to paste, and each of them works${hasCurl ? '' : ' (SKIPPED: NO curl)'}`,
    async () => {
      const { program } = await startGateway()
      await program.says(/curl -s \S+\/metrics/)
      const banner = program.stderr()
      expect(banner).toContain('SANDBOX')
      const commands = banner
        .replaceAll('\\\n', '')
        .split('\n')
        .filter((line) => line.trim().startsWith('curl '))
      expect(commands).toHaveLength(4)
      const answers = await Promise.all(commands.map(outputOf))
      expect(JSON.parse(answers[0] ?? '')).toMatchObject({ pairId: 'ETH_USDC', expiry: expect.any(Number) })
      expect(JSON.parse(answers[1] ?? '')).toMatchObject({ pairId: 'ETH_USDC', status: 'awaiting' })
      expect(JSON.parse(answers[2] ?? '')).toMatchObject({ status: 'open', amount: '10.00' })
      expect(answers[3]).toContain('quotegate_build_info')
    },
  )

  // Not spawnSync: the program's output is read by this process meanwhile.
  async function outputOf(command: string): Promise<string> {
    const { execFile } = await import('node:child_process')
    return new Promise((resolve, reject) => {
      execFile('sh', ['-c', command], (error, stdout) => (error ? reject(error) : resolve(stdout)))
    })
  }
})

describe.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('%s', (signal) => {
  test('stops a gateway with exit code 0', async () => {
    const { program } = await startGateway()
    program.child.kill(signal)
    expect((await program.exit).code).toBe(0)
    // Or on call one could not tell a stop from a kill.
    expect(program.stdout()).toMatch(new RegExp(`"${signal}".*"stopping: .*\n.*"stopped"`))
  })

  test('stops a gateway whose clients keep their connections', async () => {
    const { program, trafficUrl, operationsUrl } = await startGateway()
    await (await fetch(`${trafficUrl}/v3/pairs`)).text()
    await (await fetch(`${operationsUrl}/healthz`)).text()
    program.child.kill(signal)
    expect((await program.exit).code).toBe(0)
  })

  test('lets a request in flight finish', async () => {
    const waiting: ServerResponse[] = []
    const upstream = createServer((_request, response) => {
      waiting.push(response)
      program.child.kill(signal)
      // Long enough for the signal to arrive first; nothing is asserted about it.
      setTimeout(() => response.end('finished'), 200)
    })
    await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
    const { port } = upstream.address() as AddressInfo
    const { program, trafficUrl } = await startGateway({ SWAP_BASE_URL: `http://127.0.0.1:${port}` })
    const response = await fetch(`${trafficUrl}/v3/pairs`)
    expect(await response.text()).toBe('finished')
    expect((await program.exit).code).toBe(0)
    upstream.close()
  })

  test('stops the sandbox alone with exit code 0', async () => {
    const program = startProgram(['--sandbox'], { ...freePorts, LOG_FORMAT: 'json' })
    await program.says(/listening/)
    program.child.kill(signal)
    expect((await program.exit).code).toBe(0)
  })
})

describe('--sandbox', () => {
  test('serves both upstreams by itself, and prints where', async () => {
    const program = startProgram(['--sandbox'], { ...freePorts, LOG_FORMAT: 'json' })
    const url = (await program.says(/"url":"(.+?)"/))[1] ?? ''
    const pairs = await fetch(`${url}/v3/pairs`)
    expect([pairs.status, pairs.headers.get('sandbox')]).toEqual([200, 'quotegate'])
    const checkout = await fetch(`${url}/checkouts`, {
      method: 'POST',
      headers: { Authorization: 'Bearer any', 'Content-Type': 'application/json' },
      body: '{}',
    })
    expect(checkout.status).toBe(201)
    expect((await fetch(`${url}/sandbox/faults`)).status).toBe(200)
  })

  test('obeys LOG_FORMAT and LOG_LEVEL', async () => {
    const pretty = startProgram(['--sandbox'], { ...freePorts, LOG_FORMAT: 'pretty' })
    expect((await pretty.says(/(.*)the sandbox alone is listening/))[1]).toMatch(/INFO: $/)
    const json = startProgram(['--sandbox'], { ...freePorts, LOG_FORMAT: 'json' })
    await json.says(/listening.*\n/)
    expect(JSON.parse(json.stdout())).toMatchObject({ msg: expect.stringContaining('sandbox') })
  })
})
