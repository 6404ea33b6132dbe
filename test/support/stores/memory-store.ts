import type { StoreOperation } from '../../../src/events.ts'
import type { ValkeyClient } from '../../../src/memory/client.ts'

interface KeptQuote {
  quote?: Buffer | undefined
  expires: number
  servedUntil: number
  refusedFrom: number
  lock?: string | undefined
  lockedUntil: number
}

type Parameter = string | Buffer | number

/** What the scripts of `src/replicas` do in a store, without one (`quote-scripts.ts`, `order-keys.ts`). */
export class MemoryStore {
  readonly #quotes = new Map<string, KeptQuote>()
  readonly #orders = new Map<string, { value: string; endsAtMs: number }>()
  readonly #nowMs: () => number

  /** By the store's clock. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  get locks(): number {
    return [...this.#quotes.values()].filter(({ lock }) => lock !== undefined).length
  }

  /** A client for one operation. `over` is the connection: it may take its time, and lose what was sent. */
  clientOf(
    operation: StoreOperation,
    over: (run: () => unknown) => Promise<unknown> = async (run) => run(),
  ): ValkeyClient {
    const callBuffer = async (
      _evalsha: string,
      _digest: string,
      _keys: number,
      key: string,
      ...all: Parameter[]
    ) => {
      const callId = all.pop()
      return [callId, await over(() => this.#run(operation, key, all))]
    }
    return { callBuffer } as unknown as ValkeyClient
  }

  #run(operation: StoreOperation, key: string, parameters: Parameter[]): unknown {
    switch (operation) {
      case 'quote-get':
        return this.#getOrLock(this.#at(key), parameters)
      case 'quote-set':
        return this.#set(this.#at(key), parameters)
      case 'quote-forget':
        return this.#forget(this.#at(key), String(parameters[0]))
      case 'unlock':
        return this.#unlock(this.#at(key), String(parameters[0]))
      case 'key-claim':
        return this.#claim(key, parameters)
      case 'key-settle':
        return this.#settle(key, parameters)
      default:
        throw new Error(`no script: ${operation}`)
    }
  }

  #at(key: string): KeptQuote {
    const kept = this.#quotes.get(key) ?? {
      expires: 0,
      servedUntil: 0,
      refusedFrom: 0,
      lockedUntil: 0,
    }
    this.#quotes.set(key, kept)
    return kept
  }

  #getOrLock(
    kept: KeptQuote,
    [expiresAfter, minLeftMs, token, lockMs]: Parameter[],
  ): unknown {
    const now = this.#nowMs()
    const { quote, expires, servedUntil, refusedFrom, lock, lockedUntil } = kept
    const isWanted =
      expires > Number(expiresAfter) && servedUntil - now > Number(minLeftMs)
    if (quote !== undefined && isWanted)
      return [now, quote, servedUntil - now, refusedFrom - now]
    if (lock !== undefined && lockedUntil > now) return [now, Buffer.from(lock)]
    if (Number(lockMs) > 0) {
      kept.lock = String(token)
      kept.lockedUntil = now + Number(lockMs)
    }
    return [now, Buffer.from(String(token))]
  }

  #set(
    kept: KeptQuote,
    [quote, expires, token, serveMs, servedUntil, orderMs]: Parameter[],
  ): void {
    const now = this.#nowMs()
    if (
      kept.quote === undefined ||
      kept.expires <= Number(expires) ||
      kept.servedUntil <= now
    ) {
      kept.quote = quote as Buffer
      kept.expires = Number(expires)
      kept.servedUntil = Math.min(Number(servedUntil), now + Number(serveMs))
      kept.refusedFrom = now + Number(orderMs)
    }
    this.#unlock(kept, String(token))
  }

  #unlock(kept: KeptQuote, token: string): void {
    if (kept.lock === token) kept.lock = undefined
  }

  #forget(kept: KeptQuote, line: string): void {
    if (kept.quote?.toString('latin1').startsWith(line)) kept.quote = undefined
  }

  #claim(key: string, [value, ms]: Parameter[]): unknown {
    const now = this.#nowMs()
    const kept = this.#orders.get(key)
    const isOther =
      kept?.value.slice(0, tokenLength) !== String(value).slice(0, tokenLength)
    if (kept !== undefined && isOther && kept.endsAtMs > now)
      return [Buffer.from(kept.value.slice(tokenLength)), kept.endsAtMs - now]
    if (isOther && value !== '')
      this.#orders.set(key, { value: String(value), endsAtMs: now + Number(ms) })
    return null
  }

  #settle(key: string, [token, value, ms]: Parameter[]): void {
    const now = this.#nowMs()
    const kept = this.#orders.get(key)
    const isAlive = kept !== undefined && kept.endsAtMs > now
    if (isAlive && kept.value.slice(0, tokenLength) !== token) return
    if (value === '') this.#orders.delete(key)
    else
      this.#orders.set(key, {
        value: String(value),
        endsAtMs: isAlive ? kept.endsAtMs : now + Number(ms),
      })
  }
}

const tokenLength = 22
