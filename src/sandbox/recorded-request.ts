import type { IncomingHttpHeaders } from 'node:http'

/** A request as the sandbox received it. */
export interface RecordedRequest {
  method: string
  /** As in the request line. */
  target: string
  /** With names in lower case, as node:http has them. */
  headers: IncomingHttpHeaders
  /** As received: name, value, name, value. */
  rawHeaders: string[]
  /** At most the first MiB. Empty while the body is being read; if the client left, what had arrived by then. */
  body: Buffer
  /** By the clock in the options, without `clockOffsetMs`: the test's own time. */
  receivedAtMs: number
}
