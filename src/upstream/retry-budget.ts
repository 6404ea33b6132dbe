const slots = 10
const slotMs = 1_000
/** Share of the requests in the window that may be sent again. */
const maxShare = 0.1
/** Retries that every window allows: without them a quiet service could never retry. */
const minRetries = 3

export interface RetryBudget {
  countRequest(atMs: number): void
  /** Takes one retry from the budget. False: none is left. */
  take(): boolean
}

/** Keeps retries a fraction of the traffic, because sending each request twice makes an overloaded upstream worse. */
export function createRetryBudget(nowMs: () => number): RetryBudget {
  const requests = new Array<number>(slots).fill(0)
  const retries = new Array<number>(slots).fill(0)
  let newestSlot = Math.floor(nowMs() / slotMs)

  function slotAt(atMs: number): number {
    const slot = Math.floor(atMs / slotMs)
    if (slot <= newestSlot) return newestSlot % slots
    for (let stale = Math.max(newestSlot + 1, slot - slots + 1); stale <= slot; stale += 1) {
      requests[stale % slots] = 0
      retries[stale % slots] = 0
    }
    newestSlot = slot
    return slot % slots
  }

  const add = (counts: number[], slot: number) => {
    counts[slot] = (counts[slot] ?? 0) + 1
  }
  const sum = (counts: number[]) => counts.reduce((total, count) => total + count, 0)

  return {
    countRequest: (atMs) => add(requests, slotAt(atMs)),
    take() {
      const slot = slotAt(nowMs())
      if (sum(retries) >= Math.max(minRetries, sum(requests) * maxShare)) return false
      add(retries, slot)
      return true
    },
  }
}
