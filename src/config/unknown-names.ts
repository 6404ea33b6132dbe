import { upstreamNames } from '../http/upstreams.ts'
import { displayText } from './display.ts'
import { goneSettings } from './gone-settings.ts'
import { nearMiss } from './near-misses.ts'
import type { SettingProblem } from './parse.ts'
import { isSettingName, type SettingName, settingNames } from './settings.ts'

/** What settings of ours begin with and variables of other programs rarely do. HOST, LOG_ and CLIENT_ belong to all. */
export const ownBeginnings =
  `SWAP_ PAYMENTS_ WEBHOOKS_ QUOTE_ ORDER_ LEDGER_ UPSTREAM_ VALKEY_ RATE_LIMIT_ DRAIN_ METRICS_
  ADMIN_ STATE_ TRUST_ TRUSTED_`.split(/\s+/)

/** What Kubernetes sets in every pod beside a Service that is named swap, valkey or admin. */
const ofServices = /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_\w+)$/
/** …_PORT too, whose value alone tells it from a port that an operator means: VALKEY_PORT=6379. */
const serviceAddress = /^(?:tcp|udp|sctp):\/\//

/** Names that were settings, or begin as settings do, or are one without its beginning. */
export function unknownNameProblems(
  texts: ReadonlyMap<string, string>,
  reported: readonly Required<SettingProblem>[],
): Required<SettingProblem>[] {
  const named = new Set(reported.map(({ name }) => name))
  return [...texts].flatMap(([name, text]) => {
    const instead = Object.hasOwn(goneSettings, name) ? goneSettings[name] : undefined
    if (instead !== undefined) {
      const message = `${name} is not a setting any more: ${instead}.`
      return [{ name, value: '****', expected: 'not set', message }]
    }
    const shownName = displayText(name)
    const hint = named.has(shownName) ? undefined : hintAt(name, text)
    if (hint === undefined) return []
    // The value is not shown: the variable may belong to another program.
    return [
      { name: shownName, value: '****', ...hint, message: `${shownName} is not a setting. ${hint.message}` },
    ]
  })
}

type Hint = Pick<Required<SettingProblem>, 'expected' | 'message'>

function hintAt(name: string, text: string): Hint | undefined {
  if (isSettingName(name)) return undefined
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

/** EVICT_ON_ORDER. Shorter ones (APP_NAME, BASE_URL) and timeouts are variables of other programs. */
const withoutBeginning: ReadonlyMap<string, SettingName> = new Map(
  settingNames
    .filter((name) => ownBeginnings.some((own) => name.startsWith(own)) && !name.includes('TIMEOUT'))
    .map((name) => [name.slice(name.indexOf('_') + 1), name] as const)
    .filter(([rest]) => rest.split('_').length >= 3),
)
