import { ServerResponse } from 'node:http'

/**
 * Node 20 keeps only the last of several fields of one name, such as Set-Cookie, when any header was set before
 * the head is written. Nothing here sets one; the app that this one is mounted in may, even while the head is written.
 * Later versions of Node do what this does. What is put round `writeHead` may also make nonsense of a list of fields:
 * `on-headers` before 1.1, which sessions and compression use, reads it as pairs and throws.
 */
export function keepRepeatedFields(response: ServerResponse): void {
  const isUntouched = response.writeHead === ServerResponse.prototype.writeHead
  if (isUntouched && response.getHeaderNames().length === 0) return
  const writeHead = response.writeHead.bind(response) as (
    status: number,
    ...rest: unknown[]
  ) => ServerResponse
  const writeHeadField = (status: number, ...rest: unknown[]): ServerResponse => {
    const fields = rest.at(-1)
    if (!Array.isArray(fields)) return writeHead(status, ...rest)
    for (let at = 0; at < fields.length; at += 2)
      if (response.hasHeader(fields[at])) response.removeHeader(fields[at])
    for (let at = 0; at < fields.length; at += 2) response.appendHeader(fields[at], fields[at + 1])
    return writeHead(status, ...rest.slice(0, -1))
  }
  response.writeHead = writeHeadField as ServerResponse['writeHead']
}
