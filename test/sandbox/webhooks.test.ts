import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { recordingUpstream } from '../support/gateways/between.ts'
import { ManualClock, startedSandbox, startMs } from './support.ts'

const secret = 'whsec_test'

test('a test event is a charge that says first that it is not live', async () => {
  const receiver = await recordingUpstream()
  const sandbox = await startedSandbox({ clock: new ManualClock() })
  const delivery = await sandbox.sendWebhook({ url: `${receiver.url}/in?a=1`, secret })
  expect(delivery).toEqual({ id: expect.stringMatching(/^evt_[a-z]{24}$/), statuses: [200] })
  const [request] = receiver.requests
  expect([request?.method, request?.target]).toEqual(['POST', '/in?a=1'])
  expect(request?.headers['content-type']).toBe('application/json')
  expect(JSON.parse(String(request?.body))).toEqual({
    id: delivery.id,
    livemode: false,
    type: 'subscription.charge_succeeded',
    createdAt: new Date(startMs).toISOString(),
    data: {},
  })
})

test('is signed over its bytes', async () => {
  const receiver = await recordingUpstream()
  const sandbox = await startedSandbox()
  await sandbox.sendWebhook({ url: receiver.url, secret, data: { name: 'Zo\u00eb \u20ac' } })
  const [request] = receiver.requests
  const expected = createHmac('sha256', secret)
    .update(request?.body ?? '')
    .digest('hex')
  expect(request?.headers['sandbox-signature']).toBe(expected)
})

test('an event that names its type is a live one, which has no livemode', async () => {
  const receiver = await recordingUpstream()
  const sandbox = await startedSandbox()
  const send = (event: object) => sandbox.sendWebhook({ url: receiver.url, secret, ...event })
  await send({ type: 'subscription.charge_succeeded', id: 'evt_1', data: { id: 'sub' } })
  await send({ type: 'payment.escrow_confirmed', data: { detected_chain: 'base' } })
  const [charge, escrow] = receiver.requests.map(({ body }) => JSON.parse(String(body)))
  expect(charge).toMatchObject({ id: 'evt_1', type: 'subscription.charge_succeeded', data: { id: 'sub' } })
  expect([charge, escrow].filter((event) => 'livemode' in event)).toEqual([])
  const published = ['payer_addresses', 'on_chain_id', 'deposit_address', 'detected_chain']
  expect(Object.keys(escrow.data)).toEqual(published)
  expect(escrow.data.detected_chain).toBe('base')
})

test('is sent again, the same bytes, until the receiver has taken it', async () => {
  const receiver = await recordingUpstream((_request, response) => {
    response.writeHead(receiver.requests.length < 3 ? 503 : 204).end()
  })
  const sandbox = await startedSandbox()
  const { statuses } = await sandbox.sendWebhook({ url: receiver.url, secret, type: 'payment.settled' })
  expect(statuses).toEqual([503, 503, 204])
  expect(new Set(receiver.requests.map(({ body }) => String(body))).size).toBe(1)
})

test('is given up after five tries; without an answer and with a redirect too', async () => {
  const receiver = await recordingUpstream((request, response) => {
    if (receiver.requests.length % 2 === 0) response.destroy()
    else response.writeHead(307, { Location: request.target }).end()
  })
  const sandbox = await startedSandbox()
  const { statuses } = await sandbox.sendWebhook({ url: receiver.url, secret })
  expect(statuses).toEqual([307, 0, 307, 0, 307])
})

test('to what is not a URL is refused', async () => {
  const sandbox = await startedSandbox()
  await expect(sandbox.sendWebhook({ url: 'nowhere', secret })).rejects.toThrow('Invalid URL')
})
