import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type AttackedGateway,
  attack,
  expectRefusal,
  smuggled,
  startAttackedGateway,
} from '../support/clients/attack.ts'
import { counted } from '../support/clients/quotes.ts'
import { gatewayTo } from '../support/gateways/between.ts'

let gateway: AttackedGateway
beforeAll(async () => {
  gateway = await startAttackedGateway()
})
afterAll(() => gateway.close())

// Behind a path prefix and a credential that the gateway adds, a dot segment that the upstream resolves is
// the way to its other endpoints; a target that is not a path chooses another host.
describe('refuses targets that another server could read differently', () => {
  it.each([
    ['//evil.example/../v3/orders', 'bad-target'],
    ['/checkouts/../v3/orders', 'bad-target'],
    ['/checkouts/..', 'bad-target'],
    ['/checkouts/./x', 'bad-target'],
    ['/checkouts/%2e%2E/x', 'bad-target'],
    ['/checkouts/.%2e', 'bad-target'],
    ['/checkouts/..%2fx', 'bad-target'],
    ['/checkouts/..;/x', 'bad-target'],
    ['/checkouts\\..\\x', 'bad-target'],
    ['/checkouts/%5c..%5cx', 'bad-target'],
    ['/checkouts/%zz', 'bad-target'],
    ['/checkouts/%2', 'bad-target'],
    ['/checkouts/x#y', 'bad-target'],
    ['/checkouts/x?y#z', 'bad-target'],
    ['*', 'bad-target'],
    ['ftp://evil.example/checkouts', 'bad-target'],
    ['http://evil.example/checkouts/../v3', 'bad-target'],
    ['checkouts/x', 'malformed-request'],
    ['', 'malformed-request'],
    ['/checkouts/x y', 'malformed-request'],
    ['/checkouts/\0', 'malformed-request'],
    ['/checkouts/\x01', 'malformed-request'],
    ['/checkouts/\x7f', 'malformed-request'],
    ['/checkouts/x?\x01', 'malformed-request'],
    ['/checkouts/\xc3\xa9', 'malformed-request'],
    ['/checkouts/x?q=\xc3\xa9', 'malformed-request'],
  ])('%j', async (target, slug) => {
    const seenBefore = gateway.received.length
    const bytes = `GET ${target} HTTP/1.1\r\nHost: gateway\r\n\r\n${smuggled}`
    expectRefusal(await attack(gateway.url, bytes), 400, slug)
    expect(gateway.received.length).toBe(seenBefore)
  })
})

// Signed targets and odd but legal ones have to arrive byte for byte; nothing may resolve or re-encode them.
describe('passes legal targets on byte for byte', () => {
  it.each([
    ['/checkouts/a%2fb', '/checkouts/a%2fb'],
    ['/checkouts//x///y/', '/checkouts//x///y/'],
    ['/checkouts/...', '/checkouts/...'],
    ['/checkouts/%41', '/checkouts/%41'],
    ['/checkouts/a:b@c;d=e,f', '/checkouts/a:b@c;d=e,f'],
    ['/checkouts/x?%zz&&=?/../', '/checkouts/x?%zz&&=?/../'],
    ['/checkouts/x?', '/checkouts/x?'],
    // The host in an absolute target chooses nothing.
    ['http://evil.example/checkouts/x?q', '/checkouts/x?q'],
    ['HTTPS://evil.example:1/checkouts', '/checkouts'],
  ])('%s', async (target, expected) => {
    const seenBefore = gateway.received.length
    const bytes = `GET ${target} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n`
    const { answers } = await attack(gateway.url, bytes)
    expect(answers.map((answer) => answer.status)).toEqual([200])
    expect(gateway.received.slice(seenBefore).map((request) => request.target)).toEqual([expected])
  })
})

// "//host/path" looks like a URL without a scheme: joined to a base it names another host.
it('never reads the first segment of "//host/checkouts" as a host', async () => {
  const seenBefore = gateway.received.length
  const bytes = 'GET //evil.example/checkouts HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n'
  const { answers } = await attack(gateway.url, bytes)
  expect(answers.map((answer) => answer.status)).toEqual([404])
  expect(gateway.received.length).toBe(seenBefore)
})

// Express asks `url.parse`, which throws at these, and then answers with a page of HTML that is not counted.
describe('an absolute-form target with an invalid authority', () => {
  it.each([
    ['GET', 'http://[::1/v3/pairs'],
    ['POST', 'http://[::1/v3/orders/float'],
    ['OPTIONS', 'http://[::1/checkouts'],
  ])('%s %s is refused as a bad target, and counted once', async (method, target) => {
    const counting = await gatewayTo('http://127.0.0.1:9')
    const bytes = `${method} ${target} HTTP/1.1\r\nHost: gateway\r\nApp-Name: a\r\n\r\n`
    expectRefusal(await attack(counting.url, bytes), 400, 'bad-target')
    const request = `quotegate_http_requests_total{route="none",method="${method}",status_class="4xx"}`
    expect(await counted(counting, request)).toBe(1)
    expect(await counted(counting, 'quotegate_problems_total{type="bad-target"}')).toBe(1)
  })
})
