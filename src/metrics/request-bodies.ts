import type { Registry } from 'prom-client'
import type { RequestBodiesObserver } from '../upstream/body.ts'
import { createGauge, createTallies } from './series.ts'

export interface RequestBodyMetrics extends RequestBodiesObserver {
  /** Read at each scrape. */
  watch(held: { readonly heldBytes: number }): void
}

export function createRequestBodyMetrics(registry: Registry): RequestBodyMetrics {
  let watched: { readonly heldBytes: number } | undefined
  createGauge(
    {
      registry,
      name: 'quotegate_request_bodies_held_bytes',
      help: 'What is held of request bodies that are not whole yet',
    },
    [{ labels: {}, read: () => watched?.heldBytes ?? 0 }],
  )
  const [refused] = createTallies(
    {
      registry,
      name: 'quotegate_request_bodies_refused_total',
      help: 'Orders that were refused because they came slowly while too much was held of unfinished bodies',
    },
    [{}],
  )
  return {
    bodyRefused: () => refused?.inc(),
    watch(held) {
      watched = held
    },
  }
}
