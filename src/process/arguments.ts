/**
 * Accepts plain objects, also of another realm, as under Jest, and modules of settings. A URL, a Map or a forgotten
 * promise has no members: a call would go on as if it had none.
 */
export function isPlainObject(value: unknown): value is object {
  return ['Object', 'Module'].includes(tagOf(value))
}

function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1)
}

export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  const tag = tagOf(value)
  const kind =
    typeof value !== 'object'
      ? typeof value
      : tag.replace(/^(?:Object|Array)$/, tag.toLowerCase())
  return `${/^[aeio]/i.test(kind) ? 'an' : 'a'} ${kind}`
}
