import type { SeenRequest } from './activity.ts'

const maxRequests = 50

/** The last failed requests. They are always kept, because the person on call opens the console after the event. */
export class FailedRequests {
  readonly #requests: SeenRequest[] = []

  keep(request: SeenRequest): void {
    this.#requests.unshift(request)
    if (this.#requests.length > maxRequests) this.#requests.pop()
  }

  /** The newest first. */
  get all(): readonly SeenRequest[] {
    return this.#requests
  }
}

export function isFailed(status: number): boolean {
  return status >= 400 || status === 0
}
