import { execFile, spawn } from 'node:child_process'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { builtProgram, killPrograms, startProgram, watchProgram } from './support/gateways/program.ts'
import { environment } from './support/machine/environment.ts'

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

  test('does not mention the sandbox if there is none', async () => {
    const { program } = await startGateway({ SWAP_BASE_URL: 'http://127.0.0.1:9' })
    expect(program.stderr()).toBe('')
    expect(program.stdout()).not.toContain('sandbox')
  })

  test('warns about a near-miss of a setting, and starts', async () => {
    const { program } = await startGateway({ SWAP_APPNAME: 'tests' })
    expect(program.stdout()).toContain('SWAP_APPNAME is not a setting. Did you mean SWAP_APP_NAME?')
  })
})

describe('the banner', () => {
  test('is printed in terminals only: elsewhere the log has the same information', async () => {
    const { program } = await startGateway()
    await fetch((await program.says(/"sandboxUrl":"(.+?)"/))[1] ?? '')
    program.child.kill('SIGTERM')
    expect(await program.exit).toMatchObject({ code: 0, stderr: '' })
  })

  test('has lines to paste, which show a late order refused', {
    tags: ['curl', 'script'],
    timeout: 90_000,
  }, async () => {
    const settings = { ...freePorts, LOG_LEVEL: 'silent', PATH: environment().PATH ?? '' }
    const inTerminal = ['-qefc', `exec ${process.execPath} ${builtProgram}`, '/dev/null']
    const program = watchProgram(spawn('script', inTerminal, { env: settings }))
    await program.says(/sleep \d+\s+curl.*\s*\n/)
    const banner = program.stdout().replaceAll('\r', '')
    expect(banner).toContain('SANDBOX')
    const commands = banner
      .replaceAll('\\\n', '')
      .split('\n')
      .filter((line) => line.startsWith('    '))
    const seconds = commands.flatMap((line) => /sleep (\d+)/.exec(line)?.[1] ?? []).map(Number)
    expect(seconds.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(45)

    const answers = (await outputOf(commands.join(' && echo && \n'))).trim().split('\n')
    const quote = answers.findIndex((line) => line.includes('"expiry"'))
    expect(JSON.parse(answers[0] ?? '')).toMatchObject({ status: 'open', amount: '10.00' })
    expect(answers.slice(1, quote).join('\n')).toContain('quotegate_build_info')
    const [given, sent, refused] = answers.slice(quote).filter((line) => line !== '')
    expect(JSON.parse(given ?? '')).toMatchObject({ pairId: 'ETH_USDC', expiry: expect.any(Number) })
    expect(JSON.parse(sent ?? '')).toMatchObject({ pairId: 'ETH_USDC', status: 'awaiting' })
    expect(JSON.parse(refused ?? '')).toMatchObject({
      status: 409,
      type: 'urn:quotegate:problem:quote-expired',
      quoteId: JSON.parse(given ?? '').id,
    })
  })

  // Not spawnSync: the program's output is read by this process meanwhile.
  function outputOf(commands: string): Promise<string> {
    return new Promise((resolve, reject) => {
      execFile('sh', ['-c', commands], (error, stdout) => (error ? reject(error) : resolve(stdout)))
    })
  }
})

describe.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('%s', (signal) => {
  test('stops a gateway with exit code 0, also where clients keep their connections, and logs which signal it was', async () => {
    const { program, trafficUrl, operationsUrl } = await startGateway()
    await (await fetch(`${trafficUrl}/v3/pairs`)).text()
    await (await fetch(`${operationsUrl}/healthz`)).text()
    program.child.kill(signal)
    expect((await program.exit).code).toBe(0)
    // Or on call one could not tell a stop from a kill.
    expect(program.stdout()).toMatch(new RegExp(`"${signal}".*"stopping: .*\n.*"stopped"`))
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
