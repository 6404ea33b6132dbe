import type { Heard, Listener } from '../events.ts'
import { wireName } from '../http/headers.ts'
import type { Logger } from '../process/logger.ts'
import { runbookOf } from './outages.ts'

type NotedAddress = Heard<'addressNoted'>[0]
type NoteReason = NonNullable<NotedAddress['note']>

const maxPeers = 1_000
const maxHeaders = 5

interface AddressNotesOptions {
  log: Logger
  /** QUOTE_PARTITION=none: a user without an address shares, too. */
  allShareQuotes: boolean
  /** CLIENT_IP_HEADER. */
  clientIpHeader: string
}

/** Warns once for each peer without a usable client-address header, and keeps these peers for the console. */
export class AddressNotes implements Listener {
  readonly #options: AddressNotesOptions
  /** The peers by reason, each with its first such header. */
  readonly peers: Readonly<Record<NoteReason, Map<string, string>>> = {
    'untrusted-header': new Map(),
    'other-header': new Map(),
    'malformed-header': new Map(),
    'no-client-named': new Map(),
    /** Trusted proxies that have named no user at all; single requests do not count. */
    'no-header': new Map(),
  }

  constructor(options: AddressNotesOptions) {
    this.#options = options
  }

  /** Headers that trusted proxies send instead of CLIENT_IP_HEADER. A proxy may spell one name in several ways. */
  get otherHeaders(): string[] {
    return [...new Set(this.peers['other-header'].values())].slice(0, maxHeaders)
  }

  get ownHeader(): string {
    return wireName(this.#options.clientIpHeader)
  }

  addressNoted({ note, noteHeader = '', peer = 'unknown' }: NotedAddress): void {
    if (note !== undefined && note !== 'no-header') this.#keep(note, peer, noteHeader)
  }

  proxyJudged(peer: string, namesUsers: boolean): void {
    if (namesUsers) this.peers['no-header'].delete(peer)
    else this.#keep('no-header', peer, '')
  }

  #keep(note: NoteReason, peer: string, noteHeader: string): void {
    const named = this.peers[note]
    if (named.has(peer) || named.size >= maxPeers) return
    named.set(peer, noteHeader)
    this.#options.log.warn(
      { peer, reason: note },
      this.#sentenceOf(note, peer, noteHeader),
    )
  }

  #sentenceOf(note: NoteReason, peer: string, header: string): string {
    const { clientIpHeader, allShareQuotes } = this.#options
    const { ownHeader } = this
    const shared = allShareQuotes
      ? 'shared with all users (QUOTE_PARTITION=none)'
      : 'not shared'
    const unknown = `the provider gets for=unknown, and the quote is ${shared}`
    switch (note) {
      case 'untrusted-header':
        return (
          `${peer} sent ${header} but is not in TRUST_PROXY: the provider sees ${peer} for all its users. If it ` +
          'is your proxy, add it to TRUST_PROXY'
        )
      case 'other-header':
        // Users in the proxy's other requests may be seen at their own addresses.
        return (
          `${peer} is trusted and sends ${header}, but CLIENT_IP_HEADER is ${clientIpHeader}: the provider sees ` +
          `${peer} for all its users whose requests have no ${ownHeader} header. If your proxy writes ` +
          `${header} itself, set CLIENT_IP_HEADER=${header.toLowerCase()}`
        )
      case 'malformed-header':
        return `${peer} sent ${header} that cannot be read: ${unknown}`
      case 'no-client-named':
        return `${peer} sent ${header} that names no user: ${unknown}`
      case 'no-header': {
        const line = `${ownHeader}: ${clientIpHeader === 'forwarded' ? 'for=ADDRESS' : 'ADDRESS'}`
        return (
          `${peer} is trusted and sends no ${ownHeader}: the provider sees ${peer} for all its users. Each request ` +
          `to the swap API has to carry the address of its user, as '${line}'. To see whose place the provider ` +
          `sees, run curl -H '${line}' $GATEWAY/v3/geolocation there. ` +
          `See /${runbookOf({ what: 'no-client-header' })} of the operations listener`
        )
      }
    }
  }
}
