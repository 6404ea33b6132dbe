import type { Clock } from '../../../src/clock.ts'
import { createOneList } from '../../../src/http/headers.ts'
import { QuoteCopy } from '../../../src/memory/quote-copies.ts'
import type { SharedStore } from '../../../src/memory/store.ts'

/** The copy of a quote in the store, as one call finds it. */
export function copyOf({
  store,
  clock,
  key = 'key',
  token = 'a',
}: {
  store: SharedStore
  clock: Clock
  key?: string
  token?: string
}): QuoteCopy {
  return new QuoteCopy(
    { sharedStore: store, clock, oneList: createOneList() },
    key,
    token,
  )
}
