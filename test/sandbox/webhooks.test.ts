import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import type { WebhookEvent } from '../../src/sandbox/sandbox.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { isoAfter, stage } from './support.ts'

const secret = 'whsec_test'
const hmac = (key: string, body: Buffer = Buffer.alloc(0)) =>
  createHmac('sha256', key).update(body).digest('hex')

async function receiving(...answer: Parameters<typeof recordingUpstream>) {
  const receiver = await recordingUpstream(...answer)
  const { sandbox } = await stage()
  const send = (event: Partial<WebhookEvent> = {}) =>
    sandbox.sendWebhook({ url: `${receiver.url}/in?a=1`, secret, ...event })
  return {
    receiver,
    send,
    events: () => receiver.requests.map(({ body }) => JSON.parse(String(body))),
  }
}

test('a test event is a charge that says first that it is not live, and is signed over its bytes', async () => {
  const { receiver, send, events } = await receiving()
  const data = { name: 'Zo\u00eb \u20ac' }
  const { id, statuses } = await send({ data })
  expect([id, statuses]).toEqual([expect.stringMatching(/^evt_[a-z]{24}$/), [200]])
  const [request] = receiver.requests
  expect([request?.method, request?.target]).toEqual(['POST', '/in?a=1'])
  const type = 'subscription.charge_succeeded'
  expect(events()).toEqual([{ id, livemode: false, type, createdAt: isoAfter(0), data }])
  const signature = hmac(secret, request?.body)
  expect(request?.headers).toMatchObject({
    'content-type': 'application/json',
    'sandbox-signature': signature,
    'x-signature': signature,
    'x-webhook-id': id,
  })
  expect(request?.headers).not.toHaveProperty('x-signature-previous')
})

test('while the secret is changed, the signature with the one before stands beside', async () => {
  const { receiver, send } = await receiving()
  await send({ previousSecret: 'whsec_before' })
  const [request] = receiver.requests
  expect(request?.headers).toMatchObject({
    'x-signature': hmac(secret, request?.body),
    'x-signature-previous': hmac('whsec_before', request?.body),
  })
})

test('an event that names its type is a live one, which has no livemode', async () => {
  const { send, events } = await receiving()
  await send({ type: 'subscription.charge_succeeded', id: 'evt_1', data: { id: 'sub' } })
  await send({ type: 'payment.escrow_confirmed', data: { detected_chain: 'base' } })
  const [charge, escrow] = events()
  expect(charge).toMatchObject({
    id: 'evt_1',
    type: 'subscription.charge_succeeded',
    data: { id: 'sub' },
  })
  expect([charge, escrow].filter((event) => 'livemode' in event)).toEqual([])
  const published = [
    'payer_addresses',
    'on_chain_id',
    'deposit_address',
    'detected_chain',
  ]
  expect(Object.keys(escrow.data)).toEqual(published)
  expect(escrow.data.detected_chain).toBe('base')
})

test('is sent again, the same bytes, until the receiver has taken it', async () => {
  const statuses = [503, 503, 204]
  let tries = 0
  const { receiver, send } = await receiving((_request, response) => {
    response.writeHead(statuses[tries++] ?? 500).end()
  })
  expect(await send({ type: 'payment.settled' })).toMatchObject({ statuses })
  expect(new Set(receiver.requests.map(({ body }) => String(body))).size).toBe(1)
})

test('is given up after five tries; without an answer and with a redirect too', async () => {
  let tries = 0
  const { send } = await receiving((request, response) => {
    tries += 1
    if (tries % 2 === 0) response.destroy()
    else response.writeHead(307, { Location: request.target }).end()
  })
  expect(await send()).toMatchObject({ statuses: [307, 0, 307, 0, 307] })
})

test('to what is not a URL is refused', async () => {
  const { send } = await receiving()
  await expect(send({ url: 'nowhere' })).rejects.toThrow('Invalid URL')
})
