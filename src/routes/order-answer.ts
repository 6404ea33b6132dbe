import { addLength, answerHeaders } from '../http/headers.ts'
import { writeReceivedHead } from '../http/whole-response.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import type { Exchange } from './exchange.ts'
import { rateLimitFields } from './rate-limit.ts'

/** The upstream's answer, untouched. */
export function relayOrderAnswer(
  exchange: Exchange,
  { status, reason, rawHeaders, body }: WholeAnswer,
): void {
  const { response } = exchange
  const headers = answerHeaders(status, rawHeaders)
  addLength(headers, { status, body })
  if (exchange.rateLimit !== undefined) headers.push(...rateLimitFields(exchange, headers))
  response.sendDate = false
  writeReceivedHead(response, { status, reason, headers })
  response.end(body)
}
