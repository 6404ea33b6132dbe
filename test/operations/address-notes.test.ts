import { expect, it } from 'vitest'
import type { AddressNote } from '../../src/client/client-address.ts'
import { Events } from '../../src/events.ts'
import { AddressNotes } from '../../src/operations/address-notes.ts'
import { freshMetrics } from '../support/observing/fresh-metrics.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

async function notes() {
  const { logger, lines } = await keptLog('info')
  const kept = new AddressNotes({
    log: logger,
    allShareQuotes: false,
    clientIpHeader: 'forwarded',
  })
  const metrics = freshMetrics()
  const events = new Events([metrics.listener, kept])
  const take = (note: AddressNote, peer: string, noteHeader = 'X-Real-IP') =>
    events.addressNoted({
      address: peer,
      peer,
      peerTrusted: note !== 'untrusted-header',
      note,
      noteHeader,
    })
  const judge = (peer: string, namesUsers: boolean) =>
    events.proxyJudged(peer, namesUsers)
  return { kept, take, judge, metrics, warned: () => lines(levels.warn) }
}

it('each peer is named once for each way in which its header is not read, and kept with the first', async () => {
  const { kept, take, warned } = await notes()
  for (const peer of ['10.0.0.1', '10.0.0.2', '10.0.0.1']) {
    take('other-header', peer)
    take('untrusted-header', peer)
    take('malformed-header', peer)
  }
  expect(warned().map(({ peer, reason }) => `${peer} ${reason}`)).toEqual(
    ['10.0.0.1', '10.0.0.2'].flatMap((peer) =>
      ['other-header', 'untrusted-header', 'malformed-header'].map(
        (reason) => `${peer} ${reason}`,
      ),
    ),
  )
  take('other-header', '10.0.0.1', 'True-Client-IP')
  expect([...kept.peers['other-header'].values()]).toEqual(['X-Real-IP', 'X-Real-IP'])
})

it('a request without the header is counted and names no peer; a thousand peers without it are named', async () => {
  const { kept, take, judge, metrics, warned } = await notes()
  for (let peer = 0; peer < 1_500; peer += 1) take('no-header', `10.0.0.${peer}`)
  expect(await metrics.render()).toContain('{reason="no-header"} 1500')
  expect(kept.peers['no-header'].size).toBe(0)
  for (let peer = 0; peer < 1_500; peer += 1)
    judge(`10.0.${peer >> 8}.${peer & 255}`, false)
  judge('10.0.0.0', false)
  expect(kept.peers['no-header'].size).toBe(1_000)
  expect(warned()).toHaveLength(1_000)
  judge('10.0.0.0', true)
  expect(kept.peers['no-header'].size).toBe(999)
})

it.each(['other-header', 'untrusted-header'] as const)(
  'a thousand peers are named and kept, and the requests of all are counted: %s',
  async (note) => {
    const { kept, take, metrics, warned } = await notes()
    for (let peer = 0; peer < 1_500; peer += 1)
      take(note, `10.0.${peer >> 8}.${peer & 255}`)
    const counted = `quotegate_client_address_headers_ignored_total{reason="${note}"} 1500`
    expect(await metrics.render()).toContain(counted)
    expect(kept.peers[note].size).toBe(1_000)
    expect(warned()).toHaveLength(1_000)
  },
)
