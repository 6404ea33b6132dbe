import type { IncomingHttpHeaders } from 'node:http'

/** A request as the sandbox got it. */
export interface RecordedRequest {
  method: string
  /** As it stood in the request line. */
  target: string
  /** By their names in lower case, as node:http has them. */
  headers: IncomingHttpHeaders
  /** As they came: name, value, name, value. */
  rawHeaders: string[]
  /** At most its first MiB; what had arrived by then if the client left. Empty while it is being read. */
  body: Buffer
  /** By the clock that the sandbox was given, without `clockOffsetMs`: the test's own time. */
  receivedAtMs: number
}
