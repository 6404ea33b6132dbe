import { describe, expect, test } from 'vitest'
import { createAccess } from '../../src/operations/access.ts'
import { sendRaw } from '../support/clients/raw-connection.ts'
import { gatewayWith } from '../support/gateways/between.ts'
import { act, ask, production, quote, statusOf } from './support.ts'

const token = 'correct-horse-battery'

describe('the name in Host', () => {
  /** By the rule alone; the paths that it holds for are asked through the listener below. */
  function isAllowed(rawHeaders: string[], url = '/'): boolean {
    const access = createAccess(
      { admin: { allowedHosts: ['gate.internal'] }, production: false },
      { adminToken: undefined },
    )
    try {
      access.refuseHost({ rawHeaders, url } as never, {} as never, () => {})
      return true
    } catch (error) {
      expect(error).toMatchObject({
        status: 421,
        message: expect.stringContaining('ADMIN_ALLOWED_HOSTS'),
      })
      return false
    }
  }

  const allowed =
    'localhost LOCALHOST:8081 127.0.0.1:1 [::1]:8081 192.0.2.7 gate.internal Gate.Internal.:8081'.split(
      ' ',
    )
  test.each(allowed)('may be %s', (host) => {
    expect(isAllowed(['Host', host])).toBe(true)
  })

  const foreign = [
    'localhost.evil.example',
    'evil-localhost',
    '127.0.0.1.evil.example',
    '0x7f.1',
    'a@localhost',
    'gate.internal.evil.example',
    '[evil.example]',
    '[::1',
    '',
  ]
  test.each<[rawHeaders: string[], url: string]>([
    ...foreign.map((host): [string[], string] => [['Host', host], '/']),
    // It counts once only.
    [['Host', 'localhost', 'host', 'evil.example'], '/'],
    [['Host', 'localhost'], 'http://evil.example/'],
    [['X', 'host', 'localhost', 'y'], '/'],
  ])('is not fooled by %j at %s', (rawHeaders, url) => {
    expect(isAllowed(rawHeaders, url)).toBe(false)
  })

  test('of an unknown site is refused everywhere but at the probes and the metrics', async () => {
    const { operationsUrl } = await gatewayWith()
    const statusAt = async (path: string) =>
      (
        await ask(operationsUrl + path, {
          headers: { Host: 'rebound.evil.example:8081' },
        })
      ).status
    const guarded = [
      '/',
      '/main.js',
      '/status',
      '/settings',
      '/actions/drop-all',
      '/nothing-here',
    ]
    for (const path of guarded) expect(await statusAt(path), path).toBe(421)
    for (const path of ['/metrics', '/healthz', '/readyz'])
      expect(await statusAt(path), path).toBe(200)
  })
})

describe('an action', () => {
  test('is refused to a page of another origin, and without what such a page cannot send, and drops nothing', async () => {
    const gateway = await gatewayWith()
    const at = `${gateway.operationsUrl}/actions/drop-all`
    await quote(gateway)
    for (const [status, headers] of [
      [403, { Origin: 'http://evil.example' }],
      [403, { Origin: 'null' }],
      [403, { 'Sec-Fetch-Site': 'cross-site' }],
      [403, { 'Sec-Fetch-Site': 'same-site' }],
      // As a form could send it.
      [415, { 'Content-Type': 'text/plain' }],
    ] as [number, Record<string, string>][])
      expect(
        (await act(gateway, 'drop-all', {}, headers)).status,
        JSON.stringify(headers),
      ).toBe(status)
    const headers = { 'Content-Type': 'application/json' }
    expect((await ask(at, { method: 'POST', headers, body: '{}' })).status).toBe(403)
    expect((await ask(at, { headers: { 'X-Quotegate-Console': '1' } })).status).not.toBe(
      200,
    )
    const preflight = {
      Origin: 'http://evil.example',
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'x-quotegate-console',
    }
    const answer = await ask(at, { method: 'OPTIONS', headers: preflight })
    expect(
      Object.keys(answer.headers).filter((name) => name.startsWith('access-control')),
    ).toEqual([])
    expect(JSON.parse((await act(gateway, 'drop-all')).body)).toEqual({ dropped: 1 })
  })

  test('is refused in production without a token, whichever it is', async () => {
    const gateway = await gatewayWith(production)
    expect((await statusOf(gateway)).access).toBe('reading')
    for (const action of ['drop', 'drop-all', 'explain', 'try', 'faults']) {
      const answer = await act(gateway, action, {
        id: 'x',
        kind: 'quote',
        pair: 'A_B',
        body: '{}',
      })
      expect([answer.status, answer.body], action).toEqual([
        403,
        expect.stringContaining('read-only'),
      ])
    }
  })
})

describe('with an ADMIN_TOKEN', () => {
  test('an action needs the whole of it, and /status gives its public part without any', async () => {
    const gateway = await gatewayWith({ ...production, ADMIN_TOKEN: token })
    for (const [Authorization, action, access] of [
      [undefined, 401, 'reading'],
      ['Bearer correct-horse-batter', 401, 401],
      [token, 401, 401],
      [`Bearer ${token}`, 200, 'full'],
      [`bearer ${token}`, 200, 'full'],
    ] as const) {
      const headers: Record<string, string> =
        Authorization === undefined ? {} : { Authorization }
      const { status, body } = await ask(`${gateway.operationsUrl}/status`, { headers })
      const got = [
        (await act(gateway, 'drop-all', {}, headers)).status,
        status === 200 ? JSON.parse(body).access : status,
      ]
      expect(got, Authorization).toEqual([action, access])
    }
  })

  test('a page of another origin is refused as such, whatever token it sends', async () => {
    const gateway = await gatewayWith({ ADMIN_TOKEN: token })
    for (const Authorization of [undefined, 'Bearer wrong', `Bearer ${token}`]) {
      const headers = {
        Origin: 'http://evil.example',
        ...(Authorization && { Authorization }),
      }
      const { status, body } = await act(gateway, 'drop-all', {}, headers)
      expect([status, body], Authorization).toEqual([
        403,
        expect.stringContaining('another origin'),
      ])
    }
  })

  // RFC 9110 15.5.2
  test('a request without it gets the name of the header to send', async () => {
    const gateway = await gatewayWith({ ADMIN_TOKEN: token })
    const headers = { Authorization: 'Bearer wrong' }
    const answers = [await act(gateway, 'drop-all')]
    for (const path of ['/status', '/settings'])
      answers.push(await ask(gateway.operationsUrl + path, { headers }))
    for (const { status, headers } of answers)
      expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer'])
  })

  test('the token is shown nowhere', async () => {
    const secrets = { ADMIN_TOKEN: token, SWAP_AUTHORIZATION: 'Bearer swap-secret' }
    const { operationsUrl } = await gatewayWith(secrets)
    const { body } = await ask(`${operationsUrl}/settings`, {
      headers: { Authorization: `Bearer ${token}` },
    })
    expect(body).toContain('SWAP_AUTHORIZATION')
    expect(body).not.toContain(token)
    expect(body).not.toContain('swap-secret')
  })
})

test('a page may run only its own files, and no page may frame it', async () => {
  const { operationsUrl } = await gatewayWith()
  const { headers, body } = await ask(operationsUrl)
  const policy = String(headers['content-security-policy'])
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).not.toMatch(/unsafe|\*|https?:/)
  expect(body).not.toMatch(
    / style=|<style|\son\w+=|<script(?![^>]*\ssrc=)|(?:src|href)="(?:https?:)?\/\//,
  )
})

test('no path leads out of the folder of the console, and an unreadable one gets no page of HTML', async () => {
  const { operationsUrl } = await gatewayWith()
  async function answerTo(target: string): Promise<string> {
    const head = `GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`
    return (await sendRaw(operationsUrl, head, { waitMs: 60_000 })).text
  }
  const outside = [
    '/..%2foperations-app.ts',
    '/../operations-app.ts',
    '/%2e%2e/status.ts',
  ]
  for (const path of [...outside, '/console/main.js', '/constructor'])
    expect(await answerTo(path), path).toMatch(/^HTTP\/1\.1 404/)
  const unreadable = await answerTo('http://[::1/metrics')
  expect(unreadable).toMatch(/^HTTP\/1\.1 400 /)
  expect(unreadable).toContain('{"error":"The request cannot be read."}')
})
