/** Parameters of the swap API that say what is asked for, and nothing of who asks. */
const harmless: ReadonlySet<string> = new Set([
  'amount',
  'from',
  'to',
  'toAsset',
  'networks',
  'limit',
  'page',
  'format',
])
/** As these are spelled. Some servers also end a parameter at ";", and one that decodes twice at "%26". */
const plainValue = /^(?:[\w.,:+-]|%2c){0,64}$/i
/** A longer one, or one with other characters, may be a value without its name. */
const plainName = /^[\w.[\]-]{1,32}$/

/** A query for people's eyes: of any other parameter the value may be an address, a name or a key. */
export function shownQuery(query: string): string {
  return query.split('&').map(shownParameter).join('&')
}

function shownParameter(parameter: string): string {
  const equalsAt = parameter.indexOf('=')
  if (equalsAt === -1) return plainName.test(parameter) || parameter === '' ? parameter : '…'
  const name = parameter.slice(0, equalsAt)
  const value = parameter.slice(equalsAt + 1)
  if (harmless.has(name) && plainValue.test(value)) return parameter
  return `${plainName.test(name) ? name : '…'}=…`
}
