/**
 * Accepts plain objects, also of another realm, as under Jest, and imported modules, which may hold settings. A URL, a
 * Map or a promise that was not awaited has no members of its own: a call would go on as if it had been given none.
 */
export function isPlainObject(value: unknown): value is object {
  return ['Object', 'Module'].includes(tagOf(value))
}

function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1)
}

/** What a caller has passed, in words. */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  const tag = tagOf(value)
  const kind =
    typeof value !== 'object'
      ? typeof value
      : tag.replace(/^(?:Object|Array)$/, tag.toLowerCase())
  return `${/^[aeio]/i.test(kind) ? 'an' : 'a'} ${kind}`
}
