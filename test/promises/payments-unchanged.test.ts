import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { everyWay, setStage } from '../e2e/support.ts'
import { valuesOf } from '../support/clients/raw-connection.ts'
import { recordingUpstream } from '../support/gateways/between.ts'

const sign = (bytes: Buffer | string) =>
  createHmac('sha256', 'whsec_test').update(bytes).digest('hex')

/** Bytes that a parser would put down differently: spacing, order, a long number, escapes, UTF-8. */
const signedBytes =
  '{ "amount":\t10.00,"b":1,"a":0.1000000000000000055, "b":2,"name":"Caf\\u00e9 é" }\r\n'

/** An upstream that does what the payments API does: it refuses what is not signed over its exact bytes. */
function startVerifier() {
  return recordingUpstream((request, response) => {
    const isGenuine = request.headers['x-signature'] === sign(request.body)
    response.writeHead(isGenuine ? 201 : 401, 'Because I Say So', [
      'X-Payments',
      'one',
      'Set-Cookie',
      'a=1; Path=/',
      'set-cookie',
      'b=2',
      'x-PAYMENTS',
      'two',
    ])
    response.end(isGenuine ? signedBytes : 'bad signature')
  })
}

describe.each(everyWay)(
  'payments and webhooks are relayed unchanged in both directions, through %s: the merchant',
  (_way, open) => {
    test('has its signature over the exact bytes accepted, and gets back exactly what the payments API said', async () => {
      const upstream = await startVerifier()
      const { gateway } = await setStage({ PAYMENTS_BASE_URL: upstream.url })
      const target =
        '/subscriptions//x%2Fy/%E2%82%AC?filter[state]=open&&=&a=%20+%2B&q=%zz&next=/../..'
      const headers = {
        'X-Signature': sign(signedBytes),
        'Content-Type': 'application/json',
      }
      const answer = await open(gateway)('post', target).set(headers).send(signedBytes)
      expect([answer.status, answer.text]).toEqual([201, signedBytes])
      expect(answer.headers['set-cookie']).toEqual(['a=1; Path=/', 'b=2'])
      expect(answer.headers['x-payments']).toBe('one, two')
      const [seen] = upstream.requests
      expect([seen?.target, seen?.body.toString()]).toEqual([target, signedBytes])
      for (const name of ['forwarded', 'via', 'x-request-id', 'x-forwarded-for'])
        expect(valuesOf(seen?.rawHeaders ?? [], name)).toEqual([])
    })

    test('receives webhooks whose signature verifies', async () => {
      const receiver = await startVerifier()
      const { gateway } = await setStage({
        WEBHOOKS_BASE_URL: `${receiver.url}/internal`,
      })
      for (const [signature, ...expected] of [
        [sign(signedBytes), 201, signedBytes],
        [sign('{}'), 401, 'bad signature'],
      ] as const) {
        const headers = {
          'X-Signature': signature,
          'Content-Type': 'application/json',
          Forwarded: 'for=x',
        }
        const delivery = open(gateway)('post', '/webhooks/payments?try=1')
          .set(headers)
          .send(signedBytes)
        const { status, text, headers: answered } = await delivery
        expect([status, text]).toEqual(expected)
        expect(answered['x-payments']).toBe('one, two')
      }
      const [seen] = receiver.requests
      expect(seen?.target).toBe('/internal/webhooks/payments?try=1')
      expect(valuesOf(seen?.rawHeaders ?? [], 'forwarded')).toEqual(['for=x'])
    })
  },
)
