import type { Logger } from '../../process/logger.ts'
import { probeServer, type ValkeyClient } from './client.ts'
import { withDeadline } from './deadline.ts'
import { isRefusal, reasonOf, repeatsRefusal, StoreTimeout } from './failure.ts'

/** Whether the store can be used, and the reports that decide it. */
export interface Availability {
  readonly up: boolean
  /** Since when it has failed, in monotonic time, and how it failed last; undefined: it is up. */
  readonly outage: { readonly sinceMs: number; readonly reason: string } | undefined
  /** Settles when the store has answered its first probe, or after `timeoutMs`. */
  readonly firstProbe: Promise<void>
  /** A command was answered. */
  answered(): void
  /** A command failed. */
  failed(error: unknown): void
  /** Messages of other replicas can be received. */
  subscribed(): void
  /** Messages of other replicas cannot be received. */
  subscriptionFailed(error: unknown): void
  close(): void
}

export interface AvailabilityOptions {
  client: ValkeyClient
  probeKey: string
  /** The message that each probe publishes. */
  marker: string
  timeoutMs: number
  log: Logger
  /** Called after each answered probe. */
  onProbed(): void
  onUp(): void
}

/** A server that refuses this many commands, and more than one in five, counts as down. */
const maxRefusals = 5
const refusalsForgivenPerAnswer = 0.25
const firstProbesAfterMs = 100
const probeEveryMs = 1_000
/** After this long without an answered probe, the connection is replaced. */
const maxSilenceMs = 1_500
/** An outage is over when the store has been up for this long. A shorter return is not logged. */
const steadyAfterMs = 5_000
/** A store that words each refusal differently must not fill the log. */
const maxReasons = 10

/**
 * The breaker of the store. One missed deadline or lost connection opens it, so that a request with several calls to the
 * store waits for one deadline at most. The breaker closes when the store has answered a probe. Probes run in the
 * background: no request is used as one.
 */
export function createAvailability({
  client,
  probeKey,
  marker,
  timeoutMs,
  log,
  onProbed,
  onUp,
}: AvailabilityOptions): Availability {
  let up = false
  let closed = false
  let refusals = 0
  let subscriptionError: unknown
  let silentSinceMs: number | undefined
  let pauseMs = 0
  let probing = false
  let timer: NodeJS.Timeout | undefined
  let problem: unknown
  let outageSinceMs: number | undefined
  /** The reasons logged for this outage. The first reason is rarely the one that makes an outage last. */
  const loggedReasons = new Set<string>()
  let upSinceMs = 0
  let endFirstProbe = () => {}
  const firstProbe = new Promise<void>((resolve) => {
    endFirstProbe = resolve
    setTimeout(resolve, timeoutMs)
  })

  function goDown(error: unknown): void {
    problem = isNotConnected(error) || repeatsRefusal(error, problem) ? (problem ?? error) : error
    if (closed) return
    logReason()
    if (!up) return
    up = false
    pauseMs = 0
    probeAfter(0)
  }

  /** Logs each reason once per outage. */
  function logReason(): void {
    const reason = reasonOf(problem)
    if (outageSinceMs === undefined) {
      outageSinceMs = performance.now()
      log.warn({}, `the shared store is down, so each replica works on its own: ${reason}`)
    } else if (!loggedReasons.has(reason) && loggedReasons.size < maxReasons)
      log.warn({}, `the shared store is still down: ${reason}`)
    loggedReasons.add(reason)
  }

  function goUp(): void {
    problem = undefined
    endFirstProbe()
    if (up || closed) return
    up = true
    refusals = 0
    upSinceMs = performance.now()
    onUp()
  }

  function logRecovery(): void {
    const nowMs = performance.now()
    if (!up || outageSinceMs === undefined || nowMs - upSinceMs < steadyAfterMs) return
    log.info({}, `the shared store is back, after ${Math.round((upSinceMs - outageSinceMs) / 1_000)} s`)
    outageSinceMs = undefined
    loggedReasons.clear()
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
      // Probes also run while requests are answered. Orders only read, and a store that is full or has become a replica
      // still answers reads.
      await withDeadline(timeoutMs, () => probeServer(client, probeKey, marker))
      silentSinceMs = undefined
      onProbed()
      // Without a subscription this replica misses evictions, and would hand out quotes that were used elsewhere.
      if (subscriptionError !== undefined) throw subscriptionError
      goUp()
    } catch (error) {
      goDown(error)
      replaceSilentConnection(error)
    }
    probing = false
    logRecovery()
    if (up) pauseMs = probeEveryMs
    else pauseMs = wasUp ? 0 : Math.min(probeEveryMs, Math.max(firstProbesAfterMs, pauseMs * 2))
    probeAfter(pauseMs)
  }

  /** To the kernel, a connection to a machine that vanished looks alive for a quarter of an hour. */
  function replaceSilentConnection(error: unknown): void {
    const nowMs = performance.now()
    if (!(error instanceof StoreTimeout)) silentSinceMs = undefined
    else if (silentSinceMs === undefined) silentSinceMs = nowMs
    else if (nowMs - silentSinceMs >= maxSilenceMs) {
      silentSinceMs = undefined
      client.disconnect(true)
    }
  }

  // Without a listener the first 'error' event would end the process.
  client.on('error', goDown)
  client.on('node error', (error: unknown) => {
    problem = error
  })
  client.on('close', () => goDown(problem ?? new Error('the connection was closed')))
  client.on('ready', () => probeAfter(0))
  client.connect().catch(() => {})

  return {
    get up() {
      return up
    },
    get outage() {
      return up || outageSinceMs === undefined
        ? undefined
        : { sinceMs: outageSinceMs, reason: reasonOf(problem) }
    },
    firstProbe,
    answered() {
      if (refusals > 0) refusals = Math.max(0, refusals - refusalsForgivenPerAnswer)
    },
    failed(error) {
      if (isRefusal(error)) {
        refusals += 1
        problem = error
        if (refusals < maxRefusals) return
      }
      if (up) goDown(error)
    },
    subscribed() {
      if (subscriptionError === undefined) return
      subscriptionError = undefined
      probeAfter(0)
    },
    subscriptionFailed(error) {
      subscriptionError = error
      if (up) goDown(error)
    },
    close() {
      closed = true
      up = false
      clearTimeout(timer)
      endFirstProbe()
    },
  }
}

/** ioredis's messages for a missing connection, which say nothing about its cause. */
function isNotConnected(error: unknown): boolean {
  return (
    error instanceof Error &&
    /isn't writeable|isn't ready|Connection is closed|max retries per request/.test(error.message)
  )
}
