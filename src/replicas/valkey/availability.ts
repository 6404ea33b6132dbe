import type { Logger } from '../../process/logger.ts'
import { proveAlive, type ValkeyClient } from './client.ts'
import { withDeadline } from './deadline.ts'
import { isRefusal, reasonOf, repeatsRefusal, StoreTimeout } from './failure.ts'

/** Whether the store may be asked. */
export interface Watch {
  readonly up: boolean
  /** Settles with the first answer, or when the deadline of one call has passed. */
  readonly firstTry: Promise<void>
  answered(): void
  failed(error: unknown): void
  /** Whether messages of other replicas come: the reason if they cannot. */
  hearing(deafBecause?: unknown): void
  close(): void
}

export interface WatchOptions {
  client: ValkeyClient
  probeKey: string
  /** What each probe publishes. */
  ownWord: string
  timeoutMs: number
  log: Logger
  /** With each probe that was answered. */
  onProbed(): void
  onUp(): void
}

/** A server that refuses this many commands, and more than one in five, is of no use. */
const refusalsMost = 5
const refusalsForgottenByAnswer = 0.25
const firstProbesAfterMs = 100
const probeEveryMs = 1_000
/** When no probe was answered for so long, the connection itself is doubted. */
const silentMostMs = 1_500
/** A return that lasts less is part of the same outage, of which one line is logged. */
const steadyAfterMs = 5_000
/** A store that words its refusal anew each time must not fill the log. */
const reasonsMost = 10

/**
 * The breaker of the store. One missed deadline or lost connection opens it, so that a request with several calls
 * waits for one at most; it closes when the store has answered a probe, and no request is ever that probe.
 */
export function createWatch({
  client,
  probeKey,
  ownWord,
  timeoutMs,
  log,
  onProbed,
  onUp,
}: WatchOptions): Watch {
  let up = false
  let closed = false
  let refusals = 0
  let deafBecause: unknown
  let silentSinceMs: number | undefined
  let pauseMs = 0
  let probing = false
  let timer: NodeJS.Timeout | undefined
  let problem: unknown
  let outageSinceMs: number | undefined
  /** Of this outage: what it began with is seldom what keeps it going. */
  const said = new Set<string>()
  let upSinceMs = 0
  let tried = () => {}
  const firstTry = new Promise<void>((resolve) => {
    tried = resolve
    setTimeout(resolve, timeoutMs)
  })

  function fell(error: unknown): void {
    problem = isNotConnected(error) || repeatsRefusal(error, problem) ? (problem ?? error) : error
    if (closed) return
    sayWhy()
    if (!up) return
    up = false
    pauseMs = 0
    probeAfter(0)
  }

  /** Once for each reason and outage. */
  function sayWhy(): void {
    const reason = reasonOf(problem)
    if (outageSinceMs === undefined) {
      outageSinceMs = performance.now()
      log.warn({}, `the shared store is down, every replica goes on by itself: ${reason}`)
    } else if (!said.has(reason) && said.size < reasonsMost)
      log.warn({}, `the shared store is still down: ${reason}`)
    said.add(reason)
  }

  function rose(): void {
    problem = undefined
    tried()
    if (up || closed) return
    up = true
    refusals = 0
    upSinceMs = performance.now()
    onUp()
  }

  function sayIfBack(): void {
    const nowMs = performance.now()
    if (!up || outageSinceMs === undefined || nowMs - upSinceMs < steadyAfterMs) return
    log.info({}, `the shared store is back, after ${Math.round((upSinceMs - outageSinceMs) / 1_000)} s`)
    outageSinceMs = undefined
    said.clear()
  }

  function probeAfter(ms: number): void {
    clearTimeout(timer)
    if (!closed) timer = setTimeout(probe, ms).unref()
  }

  async function probe(): Promise<void> {
    if (probing) return
    probing = true
    const wasUp = up
    try {
      // Also while requests are answered: orders only read, and a store that is full or has become a replica still does.
      await withDeadline(timeoutMs, () => proveAlive(client, probeKey, ownWord))
      silentSinceMs = undefined
      onProbed()
      // Who cannot hear what others have evicted would hand out quotes that were used.
      if (deafBecause !== undefined) throw deafBecause
      rose()
    } catch (error) {
      fell(error)
      doubtConnection(error)
    }
    probing = false
    sayIfBack()
    if (up) pauseMs = probeEveryMs
    else pauseMs = wasUp ? 0 : Math.min(probeEveryMs, Math.max(firstProbesAfterMs, pauseMs * 2))
    probeAfter(pauseMs)
  }

  /** A connection to a machine that vanished looks alive for a quarter of an hour. */
  function doubtConnection(error: unknown): void {
    const nowMs = performance.now()
    if (!(error instanceof StoreTimeout)) silentSinceMs = undefined
    else if (silentSinceMs === undefined) silentSinceMs = nowMs
    else if (nowMs - silentSinceMs >= silentMostMs) {
      silentSinceMs = undefined
      client.disconnect(true)
    }
  }

  // Without a listener the first of these would end the process.
  client.on('error', fell)
  client.on('node error', (error: unknown) => {
    problem = error
  })
  client.on('close', () => fell(problem ?? new Error('the connection was closed')))
  client.on('ready', () => probeAfter(0))
  client.connect().catch(() => {})

  return {
    get up() {
      return up
    },
    firstTry,
    answered() {
      if (refusals > 0) refusals = Math.max(0, refusals - refusalsForgottenByAnswer)
    },
    failed(error) {
      if (isRefusal(error)) {
        refusals += 1
        problem = error
        if (refusals < refusalsMost) return
      }
      if (up) fell(error)
    },
    hearing(because) {
      const wasDeaf = deafBecause !== undefined
      deafBecause = because
      if (because !== undefined && up) fell(because)
      if (because === undefined && wasDeaf) probeAfter(0)
    },
    close() {
      closed = true
      up = false
      clearTimeout(timer)
      tried()
    },
  }
}

/** The client's own words for that say nothing of the cause. */
function isNotConnected(error: unknown): boolean {
  return (
    error instanceof Error &&
    /isn't writeable|isn't ready|Connection is closed|max retries per request/.test(error.message)
  )
}
