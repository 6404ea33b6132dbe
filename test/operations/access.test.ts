import { describe, expect, test } from 'vitest'
import { createAccess } from '../../src/operations/access.ts'
import { sendRaw } from '../support/clients/raw-client.ts'
import { act, ask, gatewayWith, production, quote } from './support.ts'

const token = 'correct-horse-battery'

describe('the name in Host', () => {
  const guarded = ['/', '/main.js', '/status', '/history', '/stream', '/actions/drop-all', '/nothing-here']

  test.each(guarded)('of an unknown site is refused at %s', async (path) => {
    const { operationsUrl } = await gatewayWith()
    const answer = await ask(operationsUrl + path, { headers: { Host: 'rebound.evil.example:8081' } })
    expect(answer.status).toBe(421)
    expect(answer.body).toContain('ADMIN_ALLOWED_HOSTS')
  })

  test.each(['/metrics', '/healthz', '/readyz'])('may be any at %s', async (path) => {
    const { operationsUrl } = await gatewayWith()
    const answer = await ask(operationsUrl + path, { headers: { Host: 'rebound.evil.example' } })
    expect(answer.status).toBe(200)
  })

  test.each([
    'localhost',
    'LOCALHOST:8081',
    '127.0.0.1:1',
    '[::1]:8081',
    '192.0.2.7',
    'gate.internal',
    'Gate.Internal.:8081',
  ])('may be %s for the console', async (Host) => {
    const { operationsUrl } = await gatewayWith({ ADMIN_ALLOWED_HOSTS: 'gate.internal,other.example' })
    expect((await ask(operationsUrl, { headers: { Host } })).status).toBe(200)
  })

  test.each([
    'localhost.evil.example',
    'evil-localhost',
    '127.0.0.1.evil.example',
    '0x7f.1',
    'gate.internal.evil.example',
    '[evil.example]',
    '[::1',
    'a@localhost',
  ])('is not fooled by %j', async (Host) => {
    const { operationsUrl } = await gatewayWith({ ADMIN_ALLOWED_HOSTS: 'gate.internal' })
    expect((await ask(`${operationsUrl}/status`, { headers: { Host } })).status).toBe(421)
  })

  test('counts once only: a second Host, or a target with a host of its own, is refused', () => {
    const access = createAccess({ token: undefined, allowedHosts: [], production: false })
    const refuse = (rawHeaders: string[], url = '/') =>
      access.refuseHost({ rawHeaders, url, headers: {} } as never)
    const misdirected = expect.objectContaining({ status: 421 })
    expect(() => refuse(['Host', 'localhost'])).not.toThrow()
    expect(() => refuse(['Host', 'localhost', 'host', 'evil.example'])).toThrow(misdirected)
    expect(() => refuse(['Host', 'localhost'], 'http://evil.example/')).toThrow(misdirected)
    expect(() => refuse(['Host', ''])).toThrow(misdirected)
    expect(() => refuse([])).toThrow(misdirected)
    expect(() => refuse(['X', 'host', 'localhost', 'y'])).toThrow(misdirected)
  })
})

describe('an action', () => {
  test('needs a POST with the header that a foreign page cannot send', async () => {
    const gateway = await gatewayWith()
    const at = `${gateway.operationsUrl}/actions/drop-all`
    const headers = { 'Content-Type': 'application/json' }
    expect((await ask(at, { method: 'POST', headers, body: '{}' })).status).toBe(403)
    expect((await ask(at)).status).not.toBe(200)
    expect((await act(gateway, 'drop-all')).status).toBe(200)
  })

  test('does not allow pages of another origin to send that header', async () => {
    const { operationsUrl } = await gatewayWith()
    const answer = await ask(`${operationsUrl}/actions/drop-all`, {
      method: 'OPTIONS',
      headers: {
        Origin: 'http://evil.example',
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'x-quotegate-console',
      },
    })
    expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual([])
  })

  test.each([
    { Origin: 'http://evil.example' },
    { Origin: 'null' },
    { 'Sec-Fetch-Site': 'cross-site' },
    { 'Sec-Fetch-Site': 'same-site' },
  ])('is refused to a page with %j, and drops nothing', async (headers) => {
    const gateway = await gatewayWith()
    await quote(gateway)
    const refused = await act(gateway, 'drop-all', {}, headers as Record<string, string>)
    expect(refused.status).toBe(403)
    expect(JSON.parse((await act(gateway, 'drop-all')).body)).toEqual({ dropped: 1 })
  })

  test('is refused with a content type that a form could send', async () => {
    const gateway = await gatewayWith()
    expect((await act(gateway, 'drop-all', {}, { 'Content-Type': 'text/plain' })).status).toBe(415)
  })
})

describe('with an ADMIN_TOKEN', () => {
  test('an action needs the whole token', async () => {
    const gateway = await gatewayWith({ ADMIN_TOKEN: token })
    const withToken = (value: string) => act(gateway, 'drop-all', {}, { Authorization: value })
    expect((await act(gateway, 'drop-all')).status).toBe(401)
    expect((await withToken('Bearer correct-horse-batter')).status).toBe(401)
    expect((await withToken(token)).status).toBe(401)
    expect((await withToken(`Bearer ${token}`)).status).toBe(200)
    expect((await withToken(`bearer ${token}`)).status).toBe(200)
  })

  // RFC 9110 15.5.2
  test('a request without the token gets the name of the header to send', async () => {
    const gateway = await gatewayWith({ ADMIN_TOKEN: token })
    expect((await act(gateway, 'drop-all')).headers).toMatchObject({ 'www-authenticate': 'Bearer' })
    for (const path of ['/status', '/history', '/stream']) {
      const answer = await ask(gateway.operationsUrl + path, { headers: { Authorization: 'Bearer wrong' } })
      expect([answer.status, answer.headers['www-authenticate']]).toEqual([401, 'Bearer'])
    }
  })

  test('the token allows actions in production, which is read-only without it', async () => {
    const gateway = await gatewayWith({ ...production, ADMIN_TOKEN: token })
    expect((await act(gateway, 'drop-all', {}, { Authorization: `Bearer ${token}` })).status).toBe(200)
  })

  test('a wrong token is refused at /status, and no token gets the public part', async () => {
    const { operationsUrl } = await gatewayWith({ ADMIN_TOKEN: token })
    const access = async (headers: Record<string, string>) => {
      const answer = await ask(`${operationsUrl}/status`, { headers })
      return answer.status === 200 ? JSON.parse(answer.body).access : answer.status
    }
    expect(await access({ Authorization: 'Bearer wrong' })).toBe(401)
    expect(await access({})).toBe('reading')
    expect(await access({ Authorization: `Bearer ${token}` })).toBe('full')
  })

  test('the token is shown nowhere', async () => {
    const { operationsUrl } = await gatewayWith({
      ADMIN_TOKEN: token,
      SWAP_AUTHORIZATION: 'Bearer swap-secret',
    })
    const { body } = await ask(`${operationsUrl}/status`, { headers: { Authorization: `Bearer ${token}` } })
    expect(body).toContain('SWAP_AUTHORIZATION')
    expect(body).not.toContain(token)
    expect(body).not.toContain('swap-secret')
  })
})

test.each(['drop', 'drop-all', 'explain', 'try', 'faults'])(
  'in production without a token the action %s is refused',
  async (action) => {
    const gateway = await gatewayWith(production)
    const answer = await act(gateway, action, { id: 'x', kind: 'quote', pair: 'A_B', body: '{}' })
    expect(answer.status).toBe(403)
    expect(answer.body).toContain('read-only')
  },
)

test('an unreadable target is answered without a page of HTML', async () => {
  const { operationsUrl } = await gatewayWith()
  const { text } = await sendRaw(operationsUrl, 'GET http://[::1/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
  expect(text).toMatch(/^HTTP\/1\.1 400 /)
  expect(text).toContain('{"error":"The request cannot be read."}')
})

test('nothing of the console answers on the traffic port', async () => {
  const { url } = await gatewayWith()
  for (const path of ['/', '/status', '/stream', '/main.js', '/metrics']) {
    expect((await fetch(url + path)).status, path).toBe(404)
  }
})

test('a page may run only its own files, and no page may frame it', async () => {
  const { operationsUrl } = await gatewayWith()
  const { headers, body } = await ask(operationsUrl)
  const policy = String(headers['content-security-policy'])
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).not.toMatch(/unsafe|\*|https?:/)
  expect(body).not.toMatch(/ style=|<style|\son\w+=|<script(?![^>]*\ssrc=)|(?:src|href)="(?:https?:)?\/\//)
})

test.each([
  '/..%2foperations-app.ts',
  '/../operations-app.ts',
  '/%2e%2e/status.ts',
  '/console/main.js',
  '/constructor',
])('no path leads out of the folder of the console: %s', async (path) => {
  const { operationsUrl } = await gatewayWith()
  const head = `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`
  expect((await sendRaw(operationsUrl, head)).text).toMatch(/^HTTP\/1\.1 404/)
})
