import { createHmac } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { GatewayClock as Clock } from '../clock.ts'
import { letters } from './payment-collection.ts'

export interface WebhookEvent {
  /** The receiver, such as `/webhooks/payments` of a gateway. */
  url: string
  /** The key of `X-Signature` and `Sandbox-Signature`, hexadecimal HMACs (SHA-256) of the body. */
  secret: string
  /** The earlier secret, while it is being changed, for `X-Signature-Previous`. Default: none. */
  previousSecret?: string
  /** Default: a test event, `subscription.charge_succeeded` with `"livemode":false`. */
  type?:
    | `payment.${'deposit_confirmed' | 'settled' | 'escrow_confirmed' | 'refunded'}`
    | `payment.${'expired' | 'cancelled' | 'failed'}`
    | `subscription_checkout.${'created' | 'completed'}`
    | `subscription.${'created' | 'charged' | 'charge_succeeded' | 'charge_failed'}`
  /** Default: a new one. */
  id?: string
  data?: object
}

const maxTries = 5
const firstPauseMs = 50
const timeoutMs = 10_000

/** The fields of this event in the provider's pages. */
const escrow = {
  payer_addresses: ['sandbox-payer'],
  on_chain_id: 'sandbox-escrow',
  deposit_address: 'sandbox-deposit',
  detected_chain: 'ethereum',
}

/** Sends the same bytes, with growing pauses, until a 2xx. */
export async function sendWebhook(event: WebhookEvent, clock: Clock) {
  const { url, secret, previousSecret, type, id = `evt_${letters(24)}` } = event
  const body = JSON.stringify({
    id,
    // Live events have no livemode.
    ...(type === undefined ? { livemode: false } : {}),
    type: type ?? 'subscription.charge_succeeded',
    createdAt: new Date(clock.nowMs()).toISOString(),
    data: { ...(type === 'payment.escrow_confirmed' ? escrow : {}), ...event.data },
  })
  const signedWith = (key: string) => createHmac('sha256', key).update(body).digest('hex')
  const signature = signedWith(secret)
  const headers = {
    'Content-Type': 'application/json',
    'Sandbox-Signature': signature,
    'X-Signature': signature,
    ...(previousSecret === undefined
      ? {}
      : { 'X-Signature-Previous': signedWith(previousSecret) }),
    'X-Webhook-Id': id,
  }
  const request = { method: 'POST', headers, body, redirect: 'manual' } as const
  const statuses: number[] = []
  for (let pauseMs = firstPauseMs; ; pauseMs *= 2) {
    const asked = fetch(new URL(url), {
      ...request,
      signal: AbortSignal.timeout(timeoutMs),
    })
    const response = await asked.catch(() => undefined)
    await response?.body?.cancel().catch(() => {})
    statuses.push(response?.status ?? 0)
    if (response?.ok || statuses.length === maxTries) return { id, statuses }
    await sleep(pauseMs)
  }
}
