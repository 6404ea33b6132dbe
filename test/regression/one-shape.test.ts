import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setFlagsFromString } from 'node:v8'
import { expect, onTestFinished, test } from 'vitest'
import { ask, keepAliveAgent } from '../support/clients/quotes.ts'
import { startGateway } from '../support/gateways/gateway.ts'

setFlagsFromString('--allow-natives-syntax')
const haveSameShape = new Function('one', 'other', 'return %HaveSameMap(one, other)') as (
  one: object,
  other: object,
) => boolean

interface Begun {
  request: IncomingMessage
  response: ServerResponse
}

// V8 keeps a few shapes of object apart wherever Node reads one of its sockets or answers, and looks the rest up, which
// costs a tenth of a hit. What an object is given, and in which order, must not depend on what was asked for.
test('connections and their answers have one hidden class, whatever the first request is', async () => {
  const gateway = await startGateway()
  const { port } = new URL(gateway.url)
  const seen: Begun[] = []
  const note = (message: unknown) => {
    const begun = message as Begun
    if (begun.request.socket.localPort === Number(port)) seen.push(begun)
  }
  subscribe('http.server.request.start', note)
  onTestFinished(async () => {
    unsubscribe('http.server.request.start', note)
    await gateway.close()
  })
  const asked: readonly [path: string, method: string, body?: { body: string }][] = [
    ['/v3/pairs/ETH_USDC/quotes?amount=0.1', 'GET'],
    ['/v3/pairs/ETH_USDC/quotes?amount=0.1', 'GET'],
    ['/v3/assets', 'GET'],
    ['/checkouts/co_1', 'GET'],
    ['/checkouts', 'POST', { body: '{"amount":"10.00"}' }],
  ]
  for (const [path, method, body] of asked) {
    const agent = keepAliveAgent(1)
    // Twice on each, since Node notes some things with the first answer.
    for (let time = 0; time < 2; time += 1)
      await ask(gateway.url, { path, method, agent, ...body })
  }
  expect(seen).toHaveLength(asked.length * 2)
  const [first] = seen
  for (const { request: each, response } of seen) {
    const path = `${each.method} ${each.url}`
    expect([path, haveSameShape(each.socket, first?.request.socket ?? {})]).toEqual([
      path,
      true,
    ])
    expect([path, haveSameShape(response, first?.response ?? {})]).toEqual([path, true])
  }
})
