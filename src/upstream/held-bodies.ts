import type { MemoryLimits } from '../process/memory.ts'

/** Counts what the bound on unfinished bodies costs their clients. */
export interface HeldBodiesObserver {
  /** An order that is read before it is judged was refused, because it came too slowly. */
  bodyRefused(): void
}

/** Of the heap limit, for the bodies that are not whole yet. */
const heapShare = 1 / 16
const minBytes = 8 * 2 ** 20
/** Of the bound. Bodies that are not judged leave the rest to orders, whatever orders hold. */
const unjudgedShare = 1 / 2

export function maxHeldBytes({ heapBytes }: Pick<MemoryLimits, 'heapBytes'>): number {
  return Math.max(minBytes, Math.floor(heapBytes * heapShare))
}

/**
 * What is held of request bodies that are not whole yet, of all requests together. Past the bound, a body that need not be
 * judged is let go: it streams from what has come. An order has to be read before it is sent, so if that is not
 * enough, the order that began longest ago is refused. An order that comes in one piece is never held.
 */
export class HeldBodies {
  readonly #maxBytes: number
  readonly #observer: HeldBodiesObserver
  /** Each in the order in which its bodies began. */
  readonly #unjudged: Line = { bytes: 0, holdings: new Set() }
  readonly #judged: Line = { bytes: 0, holdings: new Set() }

  constructor(maxBytes: number, observer: HeldBodiesObserver) {
    this.#maxBytes = maxBytes
    this.#observer = observer
  }

  get bytes(): number {
    return this.#unjudged.bytes + this.#judged.bytes
  }

  /** `letGo` is called at most once, when the body has to stream on, or to be refused, because memory is short. */
  hold({ isJudged, letGo }: { isJudged: boolean; letGo: () => void }): HeldBody {
    let line = isJudged ? this.#judged : this.#unjudged
    const holding: Holding = { bytes: 0, letGo }
    line.holdings.add(holding)
    const add = (bytes: number) => {
      holding.bytes += bytes
      line.bytes += bytes
    }
    return {
      grow: (bytes) => {
        add(bytes)
        this.#makeRoom()
      },
      streams: () => {
        line.holdings.delete(holding)
        const { bytes } = holding
        add(-bytes)
        line = this.#unjudged
        add(bytes)
      },
      release: () => {
        line.holdings.delete(holding)
        add(-holding.bytes)
      },
    }
  }

  #makeRoom(): void {
    const share = this.#maxBytes * unjudgedShare
    for (const holding of this.#unjudged.holdings) {
      if (this.bytes <= share) break
      this.#unjudged.holdings.delete(holding)
      holding.letGo()
    }
    for (const holding of this.#judged.holdings) {
      // Those that wait for their turn to stream keep what has come of them. It takes no more than its share.
      if (this.#judged.bytes + Math.min(this.#unjudged.bytes, share) <= this.#maxBytes) return
      this.#judged.holdings.delete(holding)
      this.#observer.bodyRefused()
      holding.letGo()
    }
  }
}

interface Line {
  bytes: number
  readonly holdings: Set<Holding>
}

interface Holding {
  bytes: number
  letGo(): void
}

/** The part of one body that has come. */
export interface HeldBody {
  /** That many bytes more are held. May drop any body, this one included. */
  grow(bytes: number): void
  /** The body streams from now on. Until it has a connection, what has come of it is still held. */
  streams(): void
  /** Nothing of it is held any longer. */
  release(): void
}
