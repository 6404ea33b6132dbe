import { isWithinEdits } from '../process/text.ts'
import { onOneLine, type SettingProblem } from './problems.ts'
import {
  isKnownName,
  isSettingName,
  type SettingName,
  secretsInFiles,
  settingNames,
} from './settings.ts'

/** Settings of earlier versions, and what replaces them. */
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
  QUOTE_OBEY_CACHE_CONTROL:
    "a quote's own expiry decides, whatever its Cache-Control says",
  QUOTE_EVICT_ON_ORDER: 'a quote that an order has used is not served again',
  RATE_LIMIT_HITS: 'quotes from the cache or from a call in flight do not count',
  ORDER_LOG:
    'ACCESS_LOG=orders logs the decisions about orders, and ACCESS_LOG=on does too',
  WEBHOOKS_CA_FILE: 'webhooks use PAYMENTS_CA_FILE',
  WEBHOOKS_CERT_FILE: 'webhooks use PAYMENTS_CERT_FILE',
  WEBHOOKS_KEY_FILE: 'webhooks use PAYMENTS_KEY_FILE',
  LEDGER_RETENTION_MS:
    'a quote is remembered for a day after its expiry; LEDGER_ENTRIES bounds how many',
  VALKEY_LOCK_WAIT_MS: 'a replica waits for 3 s for a quote that another one fetches',
}

/** A setting that other caches have. */
const timeToLive = /^(?:QUOTEGATE_)?(?:QUOTE|CACHE|QUOTE_CACHE)_TTL(?:_\w+)?$/

/** Other programs' names for our settings. The search for misspelt names would find none, or a wrong setting. */
export const otherNames = {
  REDIS_URL: 'VALKEY_URL',
  SWAP_URL: 'SWAP_BASE_URL',
  PAYMENTS_URL: 'PAYMENTS_BASE_URL',
  TRUST_PROXIES: 'TRUST_PROXY',
  RATE_LIMIT: 'RATE_LIMIT_PER_MINUTE',
  RATE_LIMIT_PER_MIN: 'RATE_LIMIT_PER_MINUTE',
  UPSTREAM_TIMEOUT_MS: 'UPSTREAM_TOTAL_TIMEOUT_MS',
} as const satisfies Record<string, SettingName>

/** Our settings begin with these, and other programs' variables rarely do. HOST, LOG_ and CLIENT_ are common. */
export const ownBeginnings =
  `SWAP_ PAYMENTS_ WEBHOOKS_ QUOTE_ ORDER_ LEDGER_ UPSTREAM_ VALKEY_ RATE_LIMIT_ DRAIN_ METRICS_
  ADMIN_ STATE_ TRUST_`.split(/\s+/)

/** Kubernetes sets these in every pod beside a Service named swap, valkey or admin. */
const ofServices = /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_\w+)$/
/** Kubernetes also sets …_PORT. Its value tells it from an operator's port: VALKEY_PORT=6379. */
const serviceAddress = /^(?:tcp|udp|sctp):\/\//

/** `isNear`: the setting was surely meant. */
interface Meant extends Pick<Required<SettingProblem>, 'expected' | 'message'> {
  isNear?: boolean
  value?: string
}

/** Values of unknown names are never shown: they may be another program's. */
export function checkNames(
  texts: ReadonlyMap<string, string>,
): (SettingProblem & Meant)[] {
  return [...texts].flatMap(([name, text]) => {
    const meant = meantBy(name, text, texts)
    return meant === undefined ? [] : { name: onOneLine(name), value: '****', ...meant }
  })
}

/** Undefined for a setting, or another program's variable. */
function meantBy(
  name: string,
  text: string,
  texts: ReadonlyMap<string, string>,
): Meant | undefined {
  if (name === 'QUOTE_PARTITION' && text.toLowerCase() === 'prefix') {
    const message = `${name}=prefix was removed and counts as ip: neighbouring addresses may be in different places.`
    return { expected: 'ip', message, value: text }
  }
  if (name === 'NODE_ENV' && isNearlyProduction(text)) {
    const message = `${name}=${onOneLine(text)} has no effect; only ${name}=production refuses the sandbox.`
    return { expected: 'production', message, value: onOneLine(text) }
  }
  if (isKnownName(name)) return undefined
  const written = inCapitals(name).replace(/^TRUSTED_/, 'TRUST_')
  const isNone = `${onOneLine(name)} is not a setting`
  const oneOf = (
    names: readonly string[],
    last: 'and' | 'or',
    before: string,
    isNear = false,
  ): Meant => {
    const expected = names.join(', ').replace(/, (?=\w+$)/, ` ${last} `)
    return {
      expected,
      message: `${isNone}. ${before} ${expected}${last === 'or' ? '?' : '.'}`,
      isNear,
    }
  }
  const didYouMean = (names: readonly string[], isNear = false) =>
    oneOf(names, 'or', 'Did you mean', isNear)

  const instead = goneSettings[written]
  if (instead !== undefined)
    return { expected: 'not set', message: `${isNone} any more: ${instead}.` }
  if (timeToLive.test(written)) {
    const message = `${isNone}. Each quote is served until its own expiry, so there is no time to live to set.`
    return { expected: 'not set', message }
  }
  const near = nearMiss(name, text)
  // Beside VALKEY_URL, a REDIS_URL is another program's.
  const isOfOther = near !== undefined && byOtherName.has(bare(name)) && texts.has(near)
  // An app may have such a variable. But invented prices must not replace the API of a SWAP_URL.
  const isSure = !byOtherName.has(bare(name)) || near === 'SWAP_BASE_URL'
  if (near !== undefined && !isOfOther) return didYouMean([near], isSure)
  if (
    ofServices.test(written) ||
    (written.endsWith('_PORT') && serviceAddress.test(text))
  )
    return undefined
  if (isSettingName(written.replace(/_FILE$/, '')))
    return oneOf(Object.keys(secretsInFiles), 'and', 'Only secrets may be in files:')
  // For example EXPIRY_MARGIN_MS. Shorter names (APP_NAME, BASE_URL) and timeouts are other programs'.
  const isTelling = /^(?!.*TIMEOUT)\w+_\w+_\w+$/.test(written)
  const whole = settingNames.filter(
    (own) => isTelling && own.replace(/^(?!OTEL)[A-Z]+_/, '') === written,
  )
  if (whole.length > 0) return didYouMean(whole)
  const beginning = ownBeginnings.find((own) => written.startsWith(own))
  if (beginning === undefined) return undefined
  const [all, similar] = [settingsOf(beginning), mostSimilar(written, beginning)]
  if (similar.length > 0 || all.length === 1)
    return didYouMean(similar.length > 0 ? similar : all)
  return oneOf(all, 'and', `The settings that begin with ${beginning} are`)
}

function isNearlyProduction(text: string): boolean {
  const mode = text.toLowerCase()
  if (mode === 'production') return false
  return mode === 'prod' || isWithinEdits(mode, 'production', 2)
}

/** log-level and QUOTEGATE_LOG_LEVEL become LOG_LEVEL. */
function inCapitals(name: string): string {
  const capitals = name.toUpperCase().replace(/[^A-Z0-9]+/g, '_')
  return capitals.replace(/^QUOTEGATE_/, '')
}

function bare(name: string): string {
  const letters = name.toUpperCase().replace(/[^A-Z0-9]/g, '')
  return letters.replace(/^QUOTEGATE/, '')
}

// Made once: a pod may have hundreds of variables.
const byBareName = new Map(settingNames.map((name) => [bare(name), name]))
const byOtherName = new Map(
  Object.entries(otherNames).map(([other, name]) => [bare(other), name]),
)

/** What a name that is not a setting probably means. */
export function nearMiss(name: string, value: string): SettingName | undefined {
  // Kubernetes and container links set QUOTEGATE_PORT=tcp://… beside a service named quotegate.
  if (isKnownName(name) || serviceAddress.test(value)) return undefined
  const written = bare(name)
  // Short names get no edits: POST, HOSTS and SORT are not misspelt.
  const edits = ({ length }: string) => Number(length >= 7) + Number(length >= 10)
  const isNear = ([known]: [string, unknown]) =>
    isWithinEdits(written, known, edits(known))
  return (
    byBareName.get(written) ??
    byOtherName.get(written) ??
    [...byBareName].find(isNear)?.[1]
  )
}

function settingsOf(beginning: string): readonly SettingName[] {
  return settingNames.filter((name) => name.startsWith(beginning))
}

/** Settings that share the most words with the rest of the name, at least one. */
function mostSimilar(written: string, beginning: string): readonly SettingName[] {
  // MS tells nothing.
  const words = written.slice(beginning.length).split('_')
  const telling = words.filter((word) => !['MS', ''].includes(word))
  // SWAP_CONNECTIONS or PAYMENTS_TIMEOUT_MS may mean an UPSTREAM_… setting for all.
  const ofAll = /^(?:SWAP|PAYMENTS|WEBHOOKS)_$/.test(beginning)
    ? settingsOf('UPSTREAM_')
    : []
  const candidates = [...settingsOf(beginning), ...ofAll]
  const likeness = (name: SettingName) => {
    // SWAP_KEY may be a secret, not a TLS key's file.
    if (name.endsWith('_FILE') !== written.endsWith('_FILE')) return 0
    const [, ...others] = name.split('_')
    return telling.filter((word) => others.some((other) => areAlike(word, other))).length
  }
  const best = Math.max(1, ...candidates.map(likeness))
  return candidates.filter((name) => likeness(name) === best)
}

/** DIR and DIRECTORY, FIELD and FIELDS. */
function areAlike(left: string, right: string): boolean {
  const [short, long] = left.length < right.length ? [left, right] : [right, left]
  return short === long || (short.length >= 3 && long.startsWith(short))
}
