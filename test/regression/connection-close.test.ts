import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AttackedGateway, attack, smuggled, startAttackedGateway } from '../support/clients/attack.ts'

let gateway: AttackedGateway
beforeAll(async () => {
  gateway = await startAttackedGateway()
})
afterAll(() => gateway.close())
beforeEach(() => {
  gateway.received.length = 0
})

// RFC 9112 9.3 and 9.6. Node kept these connections open, so a client that waits for their end waited for a minute, and
// what followed the last request was served.
test.each([
  ['a tab behind it', '1.1', 'Connection: close\t\r\n'],
  ['a tab between it and a comma', '1.1', 'Connection: close\t, x-other\r\n'],
  ['a tab before it', '1.1', 'Connection:\tclose\r\n'],
  ['capitals, and another option before it', '1.1', 'Connection: keep-alive,\tCLOSE\t\r\n'],
  ['a line of its own behind keep-alive', '1.1', 'Connection: keep-alive\r\nConnection: close\t\r\n'],
  ['keep-alive behind it in HTTP/1.0', '1.0', 'Connection: close, keep-alive\r\n'],
  ['keep-alive before it in HTTP/1.0', '1.0', 'Connection: keep-alive\r\nConnection: close\r\n'],
])('close with %s closes the connection, and nothing more is served on it', async (_what, version, line) => {
  const request = `GET /checkouts/last HTTP/${version}\r\nHost: gateway\r\n${line}\r\n`
  const { answers, rest } = await attack(gateway.url, request + smuggled)
  expect(answers.map(({ headers }) => headers.get('connection'))).toEqual([['close']])
  expect([answers[0]?.body, rest]).toEqual(['/checkouts/last', ''])
  expect(gateway.received.map(({ target }) => target)).toEqual(['/checkouts/last'])
})

test('an option whose name only begins with close keeps the connection', async () => {
  const options = 'GET /checkouts/first HTTP/1.1\r\nHost: gateway\r\nConnection: closed, x-close\r\n\r\n'
  const last = 'GET /checkouts/last HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n'
  const { answers } = await attack(gateway.url, options + last)
  expect(answers.map(({ body }) => body)).toEqual(['/checkouts/first', '/checkouts/last'])
})
