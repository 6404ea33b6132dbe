export const orderOutcomes = ['complete', 'failed', 'refunded', 'expired'] as const

/** How an order ends. `expired`: its deposit does not come by itself. */
export type OrderOutcome = (typeof orderOutcomes)[number]

export interface OrderState {
  status: 'awaiting' | 'inProgress' | OrderOutcome
  /** When the order came into this state, counted from when it was placed. */
  sinceMs: number
}

/** Clients were seen to poll an order every five seconds, so they see each state. */
const stepMs = 5000

export const messages: Record<OrderState['status'], string> = {
  awaiting: 'The sandbox waits for the deposit.',
  inProgress: 'The deposit has come, and the sandbox swaps it.',
  complete: 'The sandbox has paid out.',
  failed: 'The sandbox was asked to let this order fail.',
  refunded: 'The sandbox was asked to send the deposit of this order back.',
  expired: 'No deposit came to the sandbox in time.',
}

/** `notedAfterMs`: when the client named its transaction, which counts as the deposit. */
export function stateOf(
  { outcome, notedAfterMs }: { outcome: OrderOutcome; notedAfterMs: number | undefined },
  ageMs: number,
): OrderState {
  const isPaid = outcome !== 'expired'
  const depositedAfterMs = Math.min(
    notedAfterMs ?? Number.POSITIVE_INFINITY,
    isPaid ? stepMs : Number.POSITIVE_INFINITY,
  )
  const expiresAfterMs = 2 * stepMs
  if (depositedAfterMs >= expiresAfterMs && ageMs >= expiresAfterMs) {
    return { status: 'expired', sinceMs: expiresAfterMs }
  }
  if (ageMs < depositedAfterMs) return { status: 'awaiting', sinceMs: 0 }
  const endsAfterMs = depositedAfterMs + stepMs
  if (ageMs < endsAfterMs) return { status: 'inProgress', sinceMs: depositedAfterMs }
  return { status: isPaid ? outcome : 'complete', sinceMs: endsAfterMs }
}
