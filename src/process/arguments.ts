/**
 * Other objects, such as a URL, a Map or a promise that was not awaited, have no members of their own: a call would go on
 * as if it had been given none. An imported module may hold settings. Objects of another realm count too, as under Jest.
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
