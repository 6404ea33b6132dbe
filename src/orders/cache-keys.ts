/** The cache keys of each id that the provider gave to several clients, whatever its terms were. */
export interface CacheKeys {
  of(id: string): Iterable<string>
  /** Empty keys are left out. */
  add(id: string, keys: readonly string[]): void
  forget(id: string): void
}

/** Cache keys remembered per quote id, one for each client that got the quote. Copies beyond it live until expiry. */
const maxKeysPerId = 1_000

/** All ids together have at most `maxKeys`: the ids that have gained no key for the longest time lose theirs first. */
export function createCacheKeys(maxKeys: number): CacheKeys {
  const byId = new Map<string, Set<string>>()
  let count = 0

  function forget(id: string): void {
    count -= byId.get(id)?.size ?? 0
    byId.delete(id)
  }

  return {
    of: (id) => byId.get(id) ?? [],
    add(id, added) {
      const keys = byId.get(id) ?? new Set()
      forget(id)
      for (const key of added) if (key !== '' && keys.size < maxKeysPerId) keys.add(key)
      count += keys.size
      byId.set(id, keys)
      for (const oldest of byId.keys()) {
        if (count <= maxKeys || oldest === id) break
        forget(oldest)
      }
    },
    forget,
  }
}
