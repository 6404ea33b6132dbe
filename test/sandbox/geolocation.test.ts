import { describe, expect, test } from 'vitest'
import { forwardedFor } from '../../src/sandbox/geolocation.ts'
import { ask, startedSandbox } from './support.ts'

describe('the address that decides', () => {
  test.each([
    ['for=203.0.113.7', '203.0.113.7'],
    ['For="203.0.113.7:4711"', '203.0.113.7'],
    ['for=203.0.113.7:4711', '203.0.113.7'],
    ['proto=https;for=203.0.113.7;by=10.0.0.1', '203.0.113.7'],
    ['for=203.0.113.7, for=198.51.100.1', '203.0.113.7'],
    ['host="a,b;c";for=203.0.113.7', '203.0.113.7'],
    ['for="[2001:db8::1]"', '2001:db8::1'],
    ['for="[2001:db8::1]:443"', '2001:db8::1'],
    ['for="[::ffff:203.0.113.7]"', '203.0.113.7'],
    ['for=[2001:db8::1]', undefined],
    ['for="2001:db8::1"', undefined],
    ['for=2001:db8::1', undefined],
    ['for=unknown, for=203.0.113.7', undefined],
    ['for=_hidden', undefined],
    ['proto=https, for=203.0.113.7', undefined],
    ['for=0x7f.1', undefined],
    ['for="203.0.113.7', undefined],
    ['', undefined],
  ])('in %s is %s', (header, address) => {
    expect(forwardedFor(header)).toBe(address)
  })

  test('is the left-most of several header lines', async () => {
    const sandbox = await startedSandbox()
    const { body } = await ask(sandbox, 'GET', '/v3/geolocation', {
      headers: { Forwarded: 'for=198.51.100.1, for=203.0.113.7' },
    })
    expect(body).toEqual({ ip: '198.51.100.1', source: 'forwarded', allowed: true })
  })

  test('is the peer where Forwarded cannot be used', async () => {
    const sandbox = await startedSandbox()
    const { body } = await ask(sandbox, 'GET', '/v3/geolocation', {
      headers: { Forwarded: 'for=2001:db8::1' },
    })
    expect(body).toEqual({ ip: '127.0.0.1', source: 'peer', allowed: true })
  })
})

describe('a restricted place', () => {
  const restricted = { Forwarded: 'for=203.0.113.7', 'App-Name': 'tests' }

  test.each([
    ['GET', '/v3/pairs/ETH_USDC'],
    ['GET', '/v3/pairs/ETH_USDC/rates'],
    ['GET', '/v3/pairs/ETH_USDC/quotes?amount=1'],
    ['POST', '/v3/orders'],
    ['POST', '/v3/orders/float'],
    ['GET', '/v3/orders/any'],
  ])('is refused %s %s', async (method, target) => {
    const sandbox = await startedSandbox()
    const { status, body } = await ask(sandbox, method, target, { headers: restricted })
    expect(status).toBe(403)
    expect(body).toEqual({ code: 'RESTRICTED_GEOLOCATION' })
  })

  test('may still request its location', async () => {
    const sandbox = await startedSandbox()
    const { body } = await ask(sandbox, 'GET', '/v3/geolocation', { headers: restricted })
    expect(body).toEqual({ ip: '203.0.113.7', source: 'forwarded', allowed: false })
  })

  test.each([
    ['2001:db8::/32', 'for="[2001:db8::1]"', false],
    ['2001:db8::/32', 'for=203.0.113.7', true],
    ['203.0.113.9', 'for=203.0.113.9', false],
    ['203.0.113.9', 'for=203.0.113.7', true],
    ['127.0.0.0/8', 'for=unknown', false],
    ['', 'for=203.0.113.7', true],
  ])('can be moved to %s, where %s is allowed: %s', async (restrictedPlace, forwarded, allowed) => {
    const sandbox = await startedSandbox({ faults: { restrictedPlace } })
    const { body } = await ask(sandbox, 'GET', '/v3/geolocation', { headers: { Forwarded: forwarded } })
    expect(body.allowed).toBe(allowed)
  })
})
