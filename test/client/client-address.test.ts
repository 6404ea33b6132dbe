import type { IncomingMessage } from 'node:http'
import { describe, expect, test } from 'vitest'
import { Users } from '../../src/client/client-address.ts'
import { Events } from '../../src/events.ts'
import { claimsClientAddress } from '../../src/http/headers.ts'

const client = '203.0.113.7'
const proxy = '10.0.0.1'

function reader(
  ipHeader = 'forwarded',
  trustProxy: readonly string[] = ['10.0.0.0/8', '2001:db8:aaaa::/48'],
) {
  return new Users({ trustProxy, ipHeader }, new Events()).read
}

/** What a trusted proxy's Forwarded lines make of it. */
function behindProxy(...lines: string[]) {
  return reader()(
    proxy,
    lines.flatMap((line) => ['Forwarded', line]),
  )
}

describe('without a trusted peer', () => {
  test('the user is the peer', () => {
    expect(reader()(client, ['Host', 'x'])).toEqual({
      address: client,
      peer: client,
      peerTrusted: false,
    })
  })

  test('a peer with no address stays unknown, whatever it sends', () => {
    for (const peer of [undefined, '', '/run/socket']) {
      expect(reader()(peer, ['Forwarded', 'for=192.0.2.1'])).toEqual({
        address: undefined,
        peer: undefined,
        peerTrusted: false,
      })
    }
  })

  test.each(['10.1.2.3', '127.0.0.1', '::1', '169.254.1.1', 'fd00::1'])(
    'a header from the local network (%s) is noted as spelled, and not trusted',
    (peer) => {
      const read = reader('forwarded', ['192.0.2.1'])
      expect(read(peer, ['Host', 'x', 'X-FORWARDED-Proto', 'https'])).toEqual({
        address: peer,
        peer,
        peerTrusted: false,
        note: 'untrusted-header',
        noteHeader: 'X-FORWARDED-Proto',
      })
      expect(read(peer, ['Host', 'forwarded']).note).toBeUndefined()
    },
  )

  test.each(['172.32.0.1', '2001:db8::1'])(
    'a header from elsewhere (%s) is not noted',
    (peer) =>
      expect(
        reader('forwarded', [])(peer, ['Forwarded', 'for=192.0.2.1']).note,
      ).toBeUndefined(),
  )
})

/** What the reader makes of a header that names this user, or no user. */
const named = (address: string) => ({ address, peer: proxy, peerTrusted: true })
const noClient = {
  address: undefined,
  peer: proxy,
  peerTrusted: true,
  note: expect.any(String),
}

describe('behind trusted peers', () => {
  test.each([
    [['X-Forwarded-For', client, 'X-Real-IP', client], 'X-Forwarded-For'],
    [['X-Real-IP', client, 'x-FORWARDED-for', client], 'x-FORWARDED-for'],
    [['X_Real_IP', client], 'X_Real_IP'],
  ])(
    'another header than its own changes nothing, and is noted: %j',
    (headers, noteHeader) => {
      expect(reader()(proxy, headers)).toEqual({
        ...named(proxy),
        note: 'other-header',
        noteHeader,
      })
      expect(reader()(proxy, [...headers, 'Forwarded', `for=${client}`])).toEqual(
        named(client),
      )
    },
  )

  test('without the header, also with what says how a user asked and not from where, the user is the peer', () => {
    const headers = [
      'X-Forwarded-Proto',
      'https',
      'X-Forwarded-Host',
      client,
      'X-Forwarded-Port',
      '443',
    ]
    expect(reader()(proxy, headers)).toEqual({ ...named(proxy), note: 'no-header' })
  })

  test('names no user, not the proxy, if no element does', () => {
    for (const lines of [['for=unknown'], [''], [' , ', ''], ['proto=https'], [';']])
      expect(behindProxy(...lines), lines.join()).toMatchObject({
        ...noClient,
        note: 'no-client-named',
      })
  })

  test('a trusted hop is recognised in every spelling', () => {
    const hops = 'for="[::ffff:10.0.0.2]", for="[2001:DB8:AAAA:0::1]:80"'
    expect(behindProxy(`for=${client}, ${hops}`).address).toBe(client)
    expect(reader()('::ffff:10.0.0.1', ['Forwarded', `for=${client}`])).toMatchObject({
      address: client,
      peer: proxy,
    })
    expect(reader()('2001:db8:aaaa::5%eth0', []).peerTrusted).toBe(true)
  })

  test.each([
    ['a repeated parameter', [`for=${client};for=${client}`]],
    ['an open quote in the last piece', [`for=${client}, for="_a`]],
    ['an invalid node', ['for=localhost']],
    ['a last line that is broken', [`for=${client}`, 'for']],
    ['a quote across lines', [`for="_a, for=${client}`, 'b"']],
  ])(
    'a header whose right end is malformed names no user, never the proxy: %s',
    (_, lines) => {
      expect(behindProxy(...lines)).toEqual({
        address: undefined,
        peer: proxy,
        peerTrusted: true,
        note: 'malformed-header',
        noteHeader: 'Forwarded',
      })
    },
  )

  test('the cache of peers has a bounded size', () => {
    const read = reader()
    const twice = (peer: string) => [read(peer, []), read(peer, [])][1]
    const first = twice('192.0.2.1')
    expect(read('192.0.2.1', [])).toBe(first)
    for (let index = 0; index < 50_000; index++)
      twice(`192.1.${index >> 8}.${index & 255}`)
    expect(read('192.0.2.1', [])).not.toBe(first)
  })
})

describe('whether a trusted peer names users', () => {
  function judging() {
    const judged: (readonly [peer: string, namesUsers: boolean])[] = []
    const events = new Events([
      { proxyJudged: (...judgement) => void judged.push(judgement) },
    ])
    const options = { trustProxy: ['0.0.0.0/0', '::/0'], ipHeader: 'forwarded' }
    const users = new Users(options, events)
    const send = (remoteAddress: string, rawHeaders: string[] = []) =>
      users.identify({ socket: { remoteAddress }, rawHeaders } as IncomingMessage)
    return { judged, send }
  }

  test('is said once, by the first user that it names or by its first twenty requests without a header', () => {
    const { judged, send } = judging()
    for (let times = 0; times < 60; times += 1) {
      send('10.0.0.1', ['Forwarded', `for=${client}`])
      send('10.0.0.2', times === 18 ? ['Forwarded', `for=${client}`] : [])
      // One peer, in two spellings.
      send(times % 2 === 0 ? '10.0.0.3' : '::ffff:10.0.0.3')
      if (times === 18) expect(judged.map(([peer]) => peer)).not.toContain('10.0.0.3')
    }
    expect(judged).toEqual([
      ['10.0.0.1', true],
      ['10.0.0.2', true],
      ['10.0.0.3', false],
    ])
    send('10.0.0.3', ['Forwarded', `for=${client}`])
    expect(judged.slice(3)).toEqual([['10.0.0.3', true]])
  })

  test('is counted from the start again for a peer after ten thousand others', () => {
    const { judged, send } = judging()
    const sendOften = (times: number) => {
      for (let sent = 0; sent < times; sent += 1) send('10.0.0.1')
    }
    sendOften(19)
    for (let index = 0; index < 15_000; index += 1) {
      const other = `10.1.${index >> 8}.${index & 255}`
      send(other)
      send(other)
    }
    sendOften(19)
    expect(judged).toEqual([])
    sendOften(1)
    expect(judged).toEqual([['10.0.0.1', false]])
  })
})

// The walk along X-Forwarded-For: test/property/client-address.test.ts.
test.each<[header: string, lines: string[], addressOrNote: string]>([
  ['cf-connecting-ip', [` ${client} `], client],
  ['cf-connecting-ip', ['2001:DB8::1'], '2001:db8::1'],
  ['cf-connecting-ip', [`${client}:4711`], client],
  ['cf-connecting-ip', [`${client}, ${client}`], 'malformed-header'],
  ['cf-connecting-ip', [client, client], 'malformed-header'],
  ['cf-connecting-ip', ['for=1.2.3.4'], 'malformed-header'],
  ['cf-connecting-ip', [''], 'no-client-named'],
  ['cf-connecting-ip', ['_hidden'], 'no-client-named'],
  // The last group is the port, also without brackets.
  ['cloudfront-viewer-address', ['2001:db8::1:46532'], '2001:db8::1'],
  ['cloudfront-viewer-address', [`${client}:46532`], client],
])('%s %j says %s, whatever Forwarded says', (header, lines, addressOrNote) => {
  const sent = [
    ...lines.flatMap((line) => [header.toUpperCase(), line]),
    'Forwarded',
    'for=192.0.2.66',
  ]
  const { address, note } = reader(header)(proxy, sent)
  expect(address ?? note).toBe(addressOrNote)
})

test('every header that claims an address is known, and nothing else', () => {
  for (const name of [
    'forwarded',
    'x-real-ip',
    'cf-connecting-ip',
    'x-forwarded-for',
    'x-forwarded-host',
  ])
    expect(claimsClientAddress(name), name).toBe(true)
  for (const name of ['host', 'x-request-id', 'cf-ipcountry', 'via', 'x-forwardedly', ''])
    expect(claimsClientAddress(name), name).toBe(false)
})
