import { z } from 'zod'
import { headerNamePattern, readBaseUrl } from './value-schemas.ts'

export const collectorUrl = z.string().transform((text, context) => {
  const form = 'an http or https URL such as http://localhost:4318'
  const result = readBaseUrl(text)
  if ('expected' in result)
    context.addIssue(
      `${form}, without user, password (OTEL_EXPORTER_OTLP_HEADERS is for keys), query and fragment`,
    )
  else if (result.url.endsWith('/v1/traces')) context.addIssue(`${form}: /v1/traces is appended`)
  else return result.url
  return z.NEVER
})

export const ratio = z
  .string()
  .regex(/^(?:0|1|0?\.\d{1,15}|1\.0{1,15})$/, 'a number from 0 to 1, such as 0.01')
  .transform(Number)

/** OpenTelemetry's own form: `key=value,key=value`, the values percent-encoded. */
function pairs(expected: string, isPair: (key: string, value: string) => boolean) {
  return z.string().transform((text, context): Readonly<Record<string, string>> => {
    const read = new Map<string, string>()
    for (const [index, part] of text.split(',').entries()) {
      if (part.trim() === '') continue
      const [, key = '', value] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(part) ?? []
      const decoded = decodedOrNone(value)
      // Its text is not repeated, because it may be a secret.
      if (decoded === undefined || !isPair(key, decoded))
        context.addIssue(`${expected} (entry ${index + 1} is not one)`)
      else read.set(key, decoded)
    }
    return Object.fromEntries(read)
  })
}

function decodedOrNone(text: string | undefined): string | undefined {
  try {
    return text === undefined ? undefined : decodeURIComponent(text)
  } catch {
    return undefined
  }
}

export const pairList = pairs(
  'a comma-separated list such as deployment.environment.name=production,team=swaps',
  (key) => /^[\x21-\x7e]{1,255}$/.test(key),
)

// What fetch sets itself, or the form of the body decides.
const headersOfTheCall = new Set([
  'connection',
  'content-length',
  'content-type',
  'host',
  'transfer-encoding',
])

export const headerList = pairs(
  'a comma-separated list of headers such as api-key=secret, the values percent-encoded',
  (key, value) =>
    headerNamePattern.test(key.toLowerCase()) &&
    !headersOfTheCall.has(key.toLowerCase()) &&
    /^[\x20-\x7e]{1,4096}$/.test(value),
)
