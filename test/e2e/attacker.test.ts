import { connect, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { sendRaw, statusesIn } from '../support/clients/raw-client.ts'
import { everyWay, type Stage, setStage, valuesOf } from './support.ts'

/** What the wallet backend next to the attacker asks for meanwhile. */
async function neighbourIsServed({ gateway }: Stage): Promise<boolean> {
  const quote = await fetch(`${gateway.url}/v3/pairs/ETH_USDC/quotes?amount=0.1`, {
    headers: { 'App-Name': 'neighbour' },
  })
  const checkouts = await fetch(`${gateway.url}/checkouts`, { headers: { Authorization: 'Bearer any' } })
  await Promise.all([quote.arrayBuffer(), checkouts.arrayBuffer()])
  return quote.status === 200 && checkouts.status === 200
}

function askRaw({ gateway }: Stage, lines: readonly string[], body = '') {
  return sendRaw(gateway.url, `${lines.join('\r\n')}\r\n\r\n${body}`, { waitMs: 5_000 })
}

/** Story 11: the attacker has the port and an hour. What it writes into a head or a body: test/regression. */
describe('the attacker', () => {
  test.each(['/metrics', '/healthz', '/readyz', '/sandbox/faults', '//metrics', '/METRICS'])(
    'does not reach the operations listener or the sandbox at %s',
    async (target) => {
      const stage = await setStage()
      const { text } = await askRaw(stage, [`GET ${target} HTTP/1.1`, 'Host: gate', 'Connection: close'])
      expect(statusesIn(text)).toEqual([404])
      expect(stage.sandbox.requests).toEqual([])
    },
  )

  test('holds 300 half-open requests, and the neighbour notices nothing', async () => {
    const stage = await setStage({ headTimeoutMs: 500 })
    const { hostname, port } = new URL(stage.gateway.url)
    const ended: Promise<void>[] = []
    const sockets: Socket[] = []
    for (let count = 0; count < 300; count++) {
      const socket = connect(Number(port), hostname, () => socket.write('GET /v3/pairs HTTP/1.1\r\nHost: ga'))
      sockets.push(socket.resume())
      socket.on('error', () => {})
      ended.push(new Promise((resolve) => socket.once('close', () => resolve())))
    }
    expect(await neighbourIsServed(stage)).toBe(true)
    await Promise.all(ended)
    expect(await neighbourIsServed(stage)).toBe(true)
  })

  test('cannot lengthen the metrics by random pairs, paths, methods and names', async () => {
    const stage = await setStage()
    const lengthOfMetrics = async () => (await stage.gateway.metrics()).match(/^quotegate_/gm)?.length
    await neighbourIsServed(stage)
    const before = await lengthOfMetrics()
    for (let count = 0; count < 50; count++) {
      const random = Math.random().toString(36).slice(2)
      const headers = { 'App-Name': random, 'X-Request-Id': random, Forwarded: `for=${random}` }
      for (const path of [
        `/v3/pairs/${random}/quotes?amount=${count}`,
        `/${random}`,
        `/checkouts/${random}`,
      ]) {
        await (
          await fetch(stage.gateway.url + path, { method: count % 2 ? 'GET' : 'PROPFIND', headers })
        ).text()
      }
    }
    expect(await lengthOfMetrics()).toBe(before)
  })
})

describe.each(everyWay)('the attacker from a restricted place, through %s,', (_way, open) => {
  // Every client on loopback is in the restricted place, the attacker too: its headers are not trusted.
  const restricted = { sandbox: { faults: { restrictedPlace: '127.0.0.0/8' } } }

  test.each([
    { Forwarded: 'for=198.51.100.1' },
    { forwarded: 'for=198.51.100.1, for="[2001:db8::1]"' },
    { 'X-Forwarded-For': '198.51.100.1' },
    { 'X-Real-IP': '198.51.100.1', 'CF-Connecting-IP': '198.51.100.1', 'True-Client-IP': '198.51.100.1' },
    { Connection: 'Forwarded, X-Forwarded-For' },
    { Forwarded: 'for=198.51.100.1', Connection: 'Forwarded' },
  ])('is refused by its real address, whatever it claims: %j', async (claims) => {
    const { sandbox, gateway } = await setStage({}, restricted)
    const answer = await open(gateway)('get', '/v3/pairs/ETH_USDC').set(claims)
    expect([answer.status, answer.body]).toEqual([403, { code: 'RESTRICTED_GEOLOCATION' }])
    const { rawHeaders } = sandbox.requests[0] ?? {}
    expect(valuesOf(rawHeaders, 'Forwarded')).toEqual(['for=127.0.0.1'])
    for (const name of ['X-Forwarded-For', 'X-Real-IP', 'CF-Connecting-IP', 'True-Client-IP']) {
      expect(valuesOf(rawHeaders, name)).toEqual([])
    }
  })

  test('cannot have a header that names it removed by listing that header in Connection', async () => {
    const { sandbox, gateway } = await setStage({}, restricted)
    await open(gateway)('get', '/v3/pairs').set({
      'App-Name': 'mallory',
      Authorization: 'Bearer m',
      Connection: 'App-Name, Authorization, User-Agent, Via, Host',
    })
    const { rawHeaders } = sandbox.requests[0] ?? {}
    for (const name of ['App-Name', 'Authorization', 'Via', 'Host']) {
      expect(valuesOf(rawHeaders, name)).toHaveLength(1)
    }
  })
})
