import { upstreamNames } from '../http/upstreams.ts'
import { onOneLine, type SettingProblem } from './problems.ts'
import { isKnownName, type SettingName, settingNames } from './settings.ts'

/** Settings of earlier versions, each with what stands in its place. */
export const goneSettings: Readonly<Record<string, string>> = {
  UPSTREAM_CONNECT_TIMEOUT_MS: 'connecting to an upstream may take 3 s',
  UPSTREAM_BODY_TIMEOUT_MS: 'an answer may pause for 30 s',
  UPSTREAM_QUEUE: 'eight times UPSTREAM_CONNECTIONS may wait',
  UPSTREAM_RETRIES: 'what the upstream cannot have seen is sent once more',
  BREAKER_FAILURES: 'a breaker opens on five failures in a row',
  BREAKER_OPEN_MS: 'an open breaker lets one request try after 5 s',
  REQUEST_HEAD_TIMEOUT_MS: 'a request head may take 10 s',
  REQUEST_BODY_IDLE_TIMEOUT_MS: 'a request body may pause for 30 s',
  QUOTE_CACHE_BYTES: 'quotes take at most 64 MiB, and QUOTE_CACHE_ENTRIES lowers that',
  QUOTE_MAX_BYTES: 'an answer over 16 KiB is relayed and not kept',
  QUOTE_OBEY_CACHE_CONTROL: "a quote's own expiry decides, whatever its Cache-Control says",
  QUOTE_EVICT_ON_ORDER: 'a quote that an order has used is not served again',
  RATE_LIMIT_HITS: 'quotes from the cache or from a call in flight do not count',
  ORDER_LOG: 'ACCESS_LOG=orders logs the decisions about orders, and ACCESS_LOG=on does too',
  WEBHOOKS_CA_FILE: 'webhooks use PAYMENTS_CA_FILE',
  WEBHOOKS_CERT_FILE: 'webhooks use PAYMENTS_CERT_FILE',
  WEBHOOKS_KEY_FILE: 'webhooks use PAYMENTS_KEY_FILE',
  VALKEY_LOCK_WAIT_MS: 'a replica waits for 3 s for a quote that another one fetches',
}

/** Names that other programs have for a setting, too different from its own to be found by edits. */
export const otherNames = {
  REDIS_URL: 'VALKEY_URL',
  SWAP_URL: 'SWAP_BASE_URL',
  PAYMENTS_URL: 'PAYMENTS_BASE_URL',
  TRUST_PROXIES: 'TRUST_PROXY',
  RATE_LIMIT_PER_MIN: 'RATE_LIMIT_PER_MINUTE',
  UPSTREAM_TIMEOUT_MS: 'UPSTREAM_TOTAL_TIMEOUT_MS',
} as const satisfies Record<string, SettingName>

/** What settings of ours begin with and variables of other programs rarely do. HOST, LOG_ and CLIENT_ belong to all. */
export const ownBeginnings =
  `SWAP_ PAYMENTS_ WEBHOOKS_ QUOTE_ ORDER_ LEDGER_ UPSTREAM_ VALKEY_ RATE_LIMIT_ DRAIN_ METRICS_
  ADMIN_ STATE_ TRUST_ TRUSTED_`.split(/\s+/)

/** What Kubernetes sets in every pod beside a Service that is named swap, valkey or admin. */
const ofServices = /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_\w+)$/
/** …_PORT too, whose value alone tells it from a port that an operator means: VALKEY_PORT=6379. */
const serviceAddress = /^(?:tcp|udp|sctp):\/\//

/**
 * Names that are not settings, and may be meant as one. Of the values nothing is shown: they may be another program's.
 */
export function checkNames(texts: ReadonlyMap<string, string>) {
  const near: Required<SettingProblem>[] = []
  const unknown: Required<SettingProblem>[] = []
  for (const [name, text] of texts) {
    const shown = onOneLine(name)
    const problem = (expected: string, message: string) => ({ name: shown, value: '****', expected, message })
    const instead = Object.hasOwn(goneSettings, name) ? goneSettings[name] : undefined
    const meant = nearMiss(name, text)
    const hint = hintAt(name, text)
    if (instead !== undefined)
      unknown.push(problem('not set', `${name} is not a setting any more: ${instead}.`))
    // Beside VALKEY_URL, a REDIS_URL is another program's.
    else if (meant !== undefined && !(byOtherName(name) !== undefined && texts.has(meant)))
      near.push(problem(meant, `${shown} is not a setting. Did you mean ${meant}?`))
    else if (hint !== undefined)
      unknown.push(problem(hint.expected, `${shown} is not a setting. ${hint.message}`))
  }
  return { near, unknown }
}

/**
 * Whether at most `maxEdits` edits turn `left` into `right`. The distance is Damerau-Levenshtein's, in which a swap of
 * neighbours is one edit, without editing a substring twice.
 */
export function isWithinEdits(left: string, right: string, maxEdits: number): boolean {
  if (Math.abs(left.length - right.length) > maxEdits) return false
  let beforeLast: number[] = []
  let last = Array.from({ length: right.length + 1 }, (_, column) => column)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    for (let column = 1; column <= right.length; column++) {
      const cost = left[row - 1] === right[column - 1] ? 0 : 1
      const [above = 0, before = 0, both = 0] = [last[column], current[column - 1], last[column - 1]]
      const isSwap =
        row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      const swapped = isSwap ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY
      current.push(Math.min(above + 1, before + 1, both + cost, swapped))
    }
    // The smallest distance of a row never falls in later rows, and most names differ within their first letters.
    if (Math.min(...current) > maxEdits) return false
    beforeLast = last
    last = current
  }
  return (last[right.length] ?? 0) <= maxEdits
}

// Short names get no edits: POST, HOSTS and SORT are not misspelt settings.
function allowedEdits(length: number): number {
  if (length >= 10) return 2
  return length >= 7 ? 1 : 0
}

function withoutSeparators(name: string): string {
  return name.toUpperCase().replace(/[^A-Z0-9]/g, '')
}

// Made once, not for each environment variable: a pod may have hundreds.
const bareNames = settingNames.map((name) => ({ name, bare: withoutSeparators(name) }))
const settingByOtherName: ReadonlyMap<string, SettingName> = new Map(
  Object.entries(otherNames).map(([other, name]) => [withoutSeparators(other), name]),
)

function byOtherName(name: string): SettingName | undefined {
  return settingByOtherName.get(withoutSeparators(name).replace(/^QUOTEGATE/, ''))
}

/** The setting that `name` was probably meant to be, if `name` is not a setting. */
export function nearMiss(name: string, value: string): SettingName | undefined {
  if (isKnownName(name)) return undefined
  // Kubernetes and container links set QUOTEGATE_PORT=tcp://… in every pod beside a service named quotegate.
  if (serviceAddress.test(value)) return undefined
  const written = withoutSeparators(name)
  const spellings = new Set([written, written.replace(/^QUOTEGATE/, '')])
  const same = bareNames.find(({ bare }) => spellings.has(bare))
  if (same !== undefined) return same.name
  const isNear = (bare: string) =>
    [...spellings].some((spelling) => isWithinEdits(spelling, bare, allowedEdits(bare.length)))
  return byOtherName(name) ?? bareNames.find(({ bare }) => isNear(bare))?.name
}

interface Hint {
  expected: string
  message: string
}

/** For a name that begins as settings do, or is one without its beginning. */
function hintAt(name: string, text: string): Hint | undefined {
  if (isKnownName(name)) return undefined
  const written = name
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, '_')
    .replace(/^QUOTEGATE_/, '')
  if (ofServices.test(written) || (written.endsWith('_PORT') && serviceAddress.test(text))) return undefined
  const whole = withoutBeginning.get(written)
  if (whole !== undefined) return didYouMean([whole])
  const beginning = ownBeginnings.find((own) => written.startsWith(own))
  if (beginning === undefined) return undefined
  const near = nearMiss(name, text)
  if (near !== undefined) return didYouMean([near])
  const similar = mostSimilar(written, beginning)
  if (similar.length > 0) return didYouMean(similar)
  const all = settingsOf(beginning)
  if (all.length === 1) return didYouMean(all)
  const listed = inWords(all, 'and')
  return { expected: listed, message: `The settings that begin with ${beginning} are ${listed}.` }
}

function didYouMean(names: readonly SettingName[]): Hint {
  const meant = inWords(names, 'or')
  return { expected: meant, message: `Did you mean ${meant}?` }
}

function inWords(names: readonly SettingName[], last: 'and' | 'or'): string {
  return [names.slice(0, -1).join(', '), ...names.slice(-1)].filter((part) => part !== '').join(` ${last} `)
}

function settingsOf(beginning: string): readonly SettingName[] {
  return settingNames.filter((name) => name.startsWith(beginning.replace('TRUSTED_', 'TRUST_')))
}

/** Those that have most words in common with the name behind its beginning; one word at least. */
function mostSimilar(written: string, beginning: string): readonly SettingName[] {
  const words = wordsOf(written.slice(beginning.length))
  // UPSTREAM_… says for all upstreams what SWAP_CONNECTIONS or PAYMENTS_TIMEOUT_MS would say for one.
  const isUpstream = upstreamNames.some((name) => beginning === `${name.toUpperCase()}_`)
  const candidates = [...settingsOf(beginning), ...(isUpstream ? settingsOf('UPSTREAM_') : [])]
  // SWAP_KEY may be a secret: it does not mean the file of a TLS key.
  const isFile = (name: string) => name.endsWith('_FILE')
  const scored = candidates
    .filter((name) => isFile(name) === isFile(written))
    .map((name) => ({ name, score: likeness(words, wordsOf(name).slice(1)) }))
  const best = Math.max(0, ...scored.map(({ score }) => score))
  return best === 0 ? [] : scored.filter(({ score }) => score === best).map(({ name }) => name)
}

/** Without the unit, which says nothing of what is meant. */
function wordsOf(name: string): string[] {
  return name.split('_').filter((word) => word !== 'MS' && word !== '')
}

function likeness(words: readonly string[], others: readonly string[]): number {
  return words.reduce((sum, word) => {
    if (others.includes(word)) return sum + 2
    return others.some((other) => areAlike(word, other)) ? sum + 1 : sum
  }, 0)
}

/** DIR and DIRECTORY, FIELD and FIELDS. */
function areAlike(left: string, right: string): boolean {
  const [short, long] = left.length < right.length ? [left, right] : [right, left]
  return short.length >= 3 && long.startsWith(short)
}

/** EXPIRY_MARGIN_MS. Shorter ones (APP_NAME, BASE_URL) and timeouts are variables of other programs. */
const withoutBeginning: ReadonlyMap<string, SettingName> = new Map(
  settingNames
    .filter((name) => ownBeginnings.some((own) => name.startsWith(own)) && !name.includes('TIMEOUT'))
    .map((name) => [name.slice(name.indexOf('_') + 1), name] as const)
    .filter(([rest]) => rest.split('_').length >= 3),
)
