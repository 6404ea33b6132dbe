import type { Sandbox, SandboxOptions } from '../../src/sandbox/sandbox.ts'
import { startSandbox } from '../../src/sandbox/sandbox.ts'

/** In the order in which the sandbox draws them. */
const kinds = ['reset', 'hang', 'error', 'cut'] as const
type Kind = (typeof kinds)[number]

const weatherEveryMs = 2_000
/** Shorter than a soak, so that quotes expire all the time. */
const quoteLifetimeMs = 900

export interface Chaos {
  readonly url: string
  readonly injected: Readonly<Record<Kind, number>>
  /** How often the upstream has seen each POST. */
  readonly seen: ReadonlyMap<string, number>
  close(): Promise<void>
}

/** Both upstreams with random faults. The rates change every two seconds, and are sometimes 0. */
export async function startChaos(idHeader: string): Promise<Chaos> {
  const injected = { reset: 0, hang: 0, error: 0, cut: 0 }
  const rates = { reset: 0.02, hang: 0.005, error: 0.02, cut: 0.02 }
  let next = 0
  // Every rate is above 0, so each request draws the faults in turn until one occurs.
  const random: NonNullable<SandboxOptions['random']> = () => {
    const kind = kinds[next] ?? 'reset'
    const drawn = Math.random()
    const occurs = drawn < rates[kind]
    if (occurs) injected[kind] += 1
    next = occurs ? 0 : (next + 1) % kinds.length
    return drawn
  }
  const sandbox = await startSandbox({
    random,
    quoteLifetimeMs,
    recordRequests: 1_000_000,
  })
  const seen = new Map<string, number>()
  const weather = setInterval(() => change(sandbox, rates), weatherEveryMs)
  const reading = setInterval(() => readSeen(), 500)

  function readSeen(): void {
    for (const { method, rawHeaders } of sandbox.requests.splice(0)) {
      if (method !== 'POST') continue
      const id =
        rawHeaders[rawHeaders.findIndex((name) => name.toLowerCase() === idHeader) + 1] ??
        ''
      seen.set(id, (seen.get(id) ?? 0) + 1)
    }
  }

  change(sandbox, rates)
  return {
    url: sandbox.url,
    injected,
    seen,
    async close() {
      clearInterval(weather)
      clearInterval(reading)
      readSeen()
      await sandbox.close()
    },
  }
}

function change(sandbox: Sandbox, rates: Record<Kind, number>): void {
  const isFair = Math.random() < 0.25
  const upTo = (most: number) =>
    isFair ? 0.000_1 : Math.max(0.000_1, Math.random() * most)
  Object.assign(rates, {
    reset: upTo(0.1),
    hang: upTo(0.01),
    error: upTo(0.1),
    cut: upTo(0.1),
  })
  sandbox.faults({
    latencyMs: isFair ? 0 : Math.floor(Math.random() * 60),
    resetRate: rates.reset,
    hangRate: rates.hang,
    errorRate: rates.error,
    cutRate: rates.cut,
    scope:
      (['all', 'all', 'swap', 'payments'] as const)[Math.floor(Math.random() * 4)] ??
      'all',
  })
}
