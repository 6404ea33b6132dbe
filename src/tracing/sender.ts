import { setTimeout } from 'node:timers/promises'
import { PatientTimer } from '../process/patient-timer.ts'

/** The collector did not take spans. Its message names no secret. */
export class CollectorFailure extends Error {}

export interface SenderOptions {
  url: string
  headers: Readonly<Record<string, string>>
  /** Of all tries together. */
  timeoutMs: number
}

export interface Sender {
  /** Resolves with the body of the answer, empty if it is not whole. Rejects with a CollectorFailure. */
  send(body: Uint8Array): Promise<Uint8Array>
  /** Ends what is under way, and all that comes after. */
  giveUp(): void
}

// https://opentelemetry.io/docs/specs/otlp/#failures-1
const retryableStatuses: ReadonlySet<number> = new Set([429, 502, 503, 504])
const firstPauseMs = 1_000
const maxPauseMs = 5_000
/** A collector answers with less. */
const maxAnswerBytes = 65_536
const noBytes = new Uint8Array()

type Tried =
  | { readonly answer: Uint8Array }
  | { readonly failure: string; readonly retryAfterMs: number | undefined }

/** Sends to a collector by POST, again where OTLP says so, and never for longer than the time that it has. */
export function createSender({ url, headers, timeoutMs }: SenderOptions): Sender {
  const underWay = new Set<AbortController>()
  let hasGivenUp = false

  async function attempt(body: Uint8Array, signal: AbortSignal, pauseMs: number): Promise<Tried> {
    let response: Response
    try {
      // A redirect would take the headers elsewhere.
      response = await fetch(url, {
        method: 'POST',
        headers,
        body: Buffer.from(body),
        signal,
        redirect: 'manual',
      })
    } catch (error) {
      if (signal.aborted) throw error
      return { failure: reasonOf(error), retryAfterMs: pauseMs }
    }
    const { status } = response
    if (status >= 200 && status < 300) return { answer: await bodyOf(response) }
    await response.body?.cancel().catch(() => {})
    // Never sooner than without the header: a collector that answers `Retry-After: 0` would be asked without a pause.
    const retryAfterS = Number(response.headers.get('retry-after') ?? 0)
    const retryAfterMs = Math.max(pauseMs, Number.isFinite(retryAfterS) ? retryAfterS * 1_000 : 0)
    return {
      failure: `the collector answered ${status}`,
      retryAfterMs: retryableStatuses.has(status) ? retryAfterMs : undefined,
    }
  }

  return {
    async send(body) {
      const endsAtMs = performance.now() + timeoutMs
      // Not AbortSignal.any: its signals outlive their calls as long as one of their sources lives.
      const end = new AbortController()
      const { signal } = end
      const timer = new PatientTimer(timeoutMs, () => end.abort())
      underWay.add(end)
      if (hasGivenUp) end.abort()
      try {
        for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 1.5, maxPauseMs)) {
          const tried = await attempt(body, signal, pauseMs)
          if ('answer' in tried) return tried.answer
          const { failure, retryAfterMs } = tried
          if (retryAfterMs === undefined || performance.now() + retryAfterMs >= endsAtMs)
            throw new CollectorFailure(failure)
          await setTimeout(retryAfterMs, undefined, { signal, ref: false })
        }
      } catch (error) {
        if (error instanceof CollectorFailure) throw error
        if (hasGivenUp) throw new CollectorFailure('the gateway has ended')
        throw new CollectorFailure(`the collector did not answer within ${timeoutMs / 1_000} s`)
      } finally {
        timer.clear()
        underWay.delete(end)
      }
    },
    giveUp() {
      hasGivenUp = true
      for (const end of underWay) end.abort()
    },
  }
}

/** The spans were taken with the head of the answer: a body that is too long, or breaks off, changes nothing about that. */
async function bodyOf({ body }: Response): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of body ?? []) {
      bytes += chunk.length
      if (bytes > maxAnswerBytes) return noBytes
      chunks.push(chunk)
    }
  } catch {
    return noBytes
  }
  return Buffer.concat(chunks)
}

/** Such as ECONNREFUSED: the message of fetch's own error says nothing. */
function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: { code?: unknown } }
  return `the collector cannot be reached${typeof cause?.code === 'string' ? ` (${cause.code})` : ''}`
}
