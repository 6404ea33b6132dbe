/** An error has a few hundred bytes. A longer body is not parsed. */
const maxBytes = 16_384

/**
 * The texts of these members in an error: at its top, or in its `error` or `details`, because providers use all three.
 */
export function statedInError(body: Buffer, names: readonly string[]): string[] {
  const top = objectIn(body)
  return [top, top?.error, top?.details].flatMap((part) =>
    isObject(part) ? names.flatMap((name) => textOf(part[name])) : [],
  )
}

function objectIn(body: Buffer): Record<string, unknown> | undefined {
  if (body.length > maxBytes) return undefined
  try {
    const json: unknown = JSON.parse(body.toString('utf8'))
    return isObject(json) ? json : undefined
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function textOf(value: unknown): string[] {
  return typeof value === 'string' || typeof value === 'number' ? [String(value)] : []
}
