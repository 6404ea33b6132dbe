import { Agent, request } from 'node:http'
import { afterEach, expect, onTestFinished, test } from 'vitest'
import { giveQuote, quotePath } from '../support/clients/quotes.ts'
import { type Backend, startBalancer } from '../support/gateways/balancer.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import { killPrograms, type RunningProgram, startProgram } from '../support/gateways/program.ts'

afterEach(killPrograms)

interface Instance extends Backend {
  program: RunningProgram
}

async function startInstance(upstreamUrl: string): Promise<Instance> {
  const program = startProgram([], {
    PORT: '0',
    ADMIN_PORT: '0',
    LOG_FORMAT: 'json',
    SWAP_BASE_URL: upstreamUrl,
    PAYMENTS_BASE_URL: upstreamUrl,
    DRAIN_DELAY_MS: '1500',
  })
  const [, url = '', operationsUrl = ''] = await program.says(/"trafficUrl":"(.+?)","operationsUrl":"(.+?)"/)
  return { program, url, operationsUrl }
}

interface Call {
  method: 'GET' | 'POST'
  path: string
  body?: string
}

/** Resolves to what came back, or to what went wrong. */
function call(url: string, agent: Agent | false, { method, path, body }: Call): Promise<string> {
  const { hostname, port } = new URL(url)
  const headers = { Host: 'gateway', 'App-Name': 'wallet' }
  return new Promise((resolve) => {
    const sent = request({ hostname, port, method, path, headers, agent }, (response) => {
      response.on('error', (error) => resolve(error.message))
      response.resume().on('end', () => resolve(String(response.statusCode)))
    })
    sent.on('error', (error) => resolve(`${method} ${error.message}`))
    sent.end(body)
  })
}

// What a deployment does: each instance is told to end, and another one takes its place, while users are at work.
test('two instances behind a load balancer are replaced under load, and no request fails', async () => {
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.startsWith('/v3')) giveQuote(response)
    else setTimeout(() => response.writeHead(201).end('created'), 20)
  })
  const instances = [await startInstance(upstream.url), await startInstance(upstream.url)]
  const balancer = await startBalancer(new Set(instances))
  onTestFinished(balancer.close)

  const outcomes = new Map<string, number>()
  let running = true
  const posted: string[] = []
  const clients = Array.from({ length: 12 }, async (_, client) => {
    // Two in three keep their connection, as pools do; the others connect anew each time.
    const agent = client % 3 === 0 ? false : new Agent({ keepAlive: true, maxSockets: 1 })
    for (let count = 0; running; count += 1) {
      const body = `${client}/${count}`
      if (client % 2 === 0) posted.push(body)
      const outcome =
        client % 2 === 0
          ? await call(balancer.url, agent, { method: 'POST', path: '/checkouts', body })
          : await call(balancer.url, agent, { method: 'GET', path: `${quotePath}?amount=${count % 7}.5` })
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
    if (agent) agent.destroy()
  })

  await pause(500)
  const replaced: Instance[] = []
  for (const old of instances) {
    const next = await startInstance(upstream.url)
    balancer.backends.add(next)
    replaced.push(next)
    old.program.child.kill('SIGTERM')
    expect((await old.program.exit).code).toBe(0)
    balancer.backends.delete(old)
  }
  await pause(500)
  running = false
  await Promise.all(clients)

  expect([...outcomes.keys()].sort()).toEqual(['200', '201'])
  expect(
    upstream.requests
      .map(({ body }) => body.toString())
      .filter(Boolean)
      .sort(),
  ).toEqual(posted.sort())
  for (const instance of [...instances, ...replaced]) expect(balancer.given.get(instance)).toBeGreaterThan(0)
})
