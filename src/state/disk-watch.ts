/** Notices a disk that hangs: what hangs does not fail. */
export interface DiskWatch {
  /** Whether something that is watched has taken too long. */
  readonly isHanging: boolean
  watch(operation: Promise<void>): Promise<void>
}

export function createDiskWatch(patienceMs: number): DiskWatch {
  const underWay = new Set<{ readonly beganAtMs: number }>()
  return {
    get isHanging() {
      const sinceMs = performance.now() - patienceMs
      return [...underWay].some(({ beganAtMs }) => beganAtMs < sinceMs)
    },
    watch(operation) {
      const watched = { beganAtMs: performance.now() }
      underWay.add(watched)
      return operation.finally(() => underWay.delete(watched))
    },
  }
}
