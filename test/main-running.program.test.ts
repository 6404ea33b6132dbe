import { execFile, spawn } from 'node:child_process'
import { describe, expect, onTestFinished, test } from 'vitest'
import { recordingUpstream } from './support/gateways/between.ts'
import {
  builtProgram,
  startListening,
  startProgram,
  watchProgram,
} from './support/gateways/program.ts'
import { environment } from './support/machine/environment.ts'

const freePorts = { PORT: '0', ADMIN_PORT: '0' }

describe('a gateway that was started', () => {
  test('logs the ports that it took for PORT=0, serves on them, and prints no banner', async () => {
    const program = await startListening()
    expect(program.url).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*$/)
    const headers = { 'App-Name': 'tests' }
    const quote = await fetch(`${program.url}/v3/pairs/ETH_USDC/quotes?amount=0.1`, {
      headers,
    })
    expect([quote.status, quote.headers.get('sandbox')]).toEqual([200, 'quotegate'])
    for (const path of ['/readyz', '/healthz'])
      expect((await fetch(program.operationsUrl + path)).status).toBe(200)
    await fetch((await program.says(/"sandboxUrl":"(.+?)"/))[1] ?? '')
    const metrics = await (await fetch(`${program.operationsUrl}/metrics`)).text()
    expect(metrics).toMatch(
      /^quotegate_build_info\{version=".+",node_version="v.+"\} 1$/m,
    )
    program.child.kill('SIGTERM')
    expect(await program.exit).toMatchObject({ code: 0, stderr: '' })
  })

  test('does not mention the sandbox if there is none', async () => {
    const program = await startListening({ SWAP_BASE_URL: 'http://127.0.0.1:9' })
    expect(program.stderr() + program.stdout()).not.toContain('sandbox')
  })

  // Not spawnSync: the program's output is read by this process meanwhile.
  const outputOf = (commands: string): Promise<string> =>
    new Promise((resolve, reject) => {
      execFile('sh', ['-c', commands], (error, stdout) =>
        error ? reject(error) : resolve(stdout),
      )
    })

  test('prints a banner in terminals, with lines to paste, which show a late order refused', {
    tags: ['curl', 'script'],
    timeout: 90_000,
  }, async () => {
    const settings = { ...freePorts, LOG_LEVEL: 'silent', PATH: environment().PATH ?? '' }
    const inTerminal = ['-qefc', `exec ${process.execPath} ${builtProgram}`, '/dev/null']
    const program = watchProgram(spawn('script', inTerminal, { env: settings }))
    onTestFinished(() => void program.child.kill('SIGKILL'))
    await program.says(/sleep \d+\s+curl.*\s*\n/)
    const banner = program.stdout().replaceAll('\r', '')
    expect(banner).toContain('SANDBOX')
    const lines = banner.replaceAll('\\\n', '').split('\n')
    const commands = lines
      .filter((line) => line.startsWith('    '))
      .join(' && echo && \n')
    // For this test quotes live for five seconds, not for the thirty of the banner.
    const [, sandboxUrl] = /sandbox: (\S+)/.exec(banner) ?? []
    await fetch(`${sandboxUrl}/sandbox/faults`, {
      method: 'PUT',
      body: '{"quoteLifetimeMs":5000}',
    })
    expect(commands).toContain('sleep 31 ')

    const answers = (await outputOf(commands.replace('sleep 31 ', 'sleep 5.5 ')))
      .trim()
      .split('\n')
    const quote = answers.findIndex((line) => line.includes('"expiry"'))
    expect(JSON.parse(answers[0] ?? '')).toMatchObject({
      status: 'open',
      amount: '10.00',
    })
    expect(answers.slice(1, quote).join('\n')).toContain('quotegate_build_info')
    const [given, sent, refused] = answers
      .slice(quote)
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line))
    expect(given).toMatchObject({ pairId: 'ETH_USDC', expiry: expect.any(Number) })
    expect(sent).toMatchObject({ pairId: 'ETH_USDC', status: 'awaiting' })
    const type = 'urn:quotegate:problem:quote-expired'
    expect(refused).toMatchObject({ status: 409, type, quoteId: given.id })
  })
})

describe.each(['SIGTERM', 'SIGINT'] as const)('%s', (signal) => {
  test('stops a gateway where clients keep their connections, once it has answered, and logs which signal it was', async () => {
    const upstream = await recordingUpstream((_request, response) => {
      program.child.kill(signal)
      // Long enough for the signal to arrive first; nothing is asserted about it.
      setTimeout(() => response.end('finished'), 200)
    })
    const program = await startListening({ SWAP_BASE_URL: upstream.url })
    await (await fetch(`${program.operationsUrl}/healthz`)).text()
    expect(await (await fetch(`${program.url}/v3/pairs`)).text()).toBe('finished')
    expect((await program.exit).code).toBe(0)
    // Or on call one could not tell a stop from a kill.
    expect(program.stdout()).toMatch(
      new RegExp(`"${signal}".*"stopping: .*\n.*"stopped"`),
    )
  })
})

describe('--sandbox', () => {
  test.each([
    ['pretty', /^\S+ INFO: the sandbox alone is listening/],
    ['json', /^\{.*"msg":"the sandbox alone is listening"\}\n/],
  ])(
    'serves both upstreams by itself, says where (LOG_FORMAT=%s), and stops at a signal',
    async (LOG_FORMAT, line) => {
      const program = startProgram(['--sandbox'], { ...freePorts, LOG_FORMAT })
      const [, url] = await program.says(/url"?: ?"(.+?)"/)
      expect(program.stdout()).toMatch(line)
      const pairs = await fetch(`${url}/v3/pairs`)
      expect([pairs.status, pairs.headers.get('sandbox')]).toEqual([200, 'quotegate'])
      const headers = { Authorization: 'Bearer any', 'Content-Type': 'application/json' }
      const checkout = await fetch(`${url}/checkouts`, {
        method: 'POST',
        headers,
        body: '{}',
      })
      expect(checkout.status).toBe(201)
      expect((await fetch(`${url}/sandbox/faults`)).status).toBe(200)
      program.child.kill('SIGTERM')
      expect((await program.exit).code).toBe(0)
    },
  )
})
