import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { closing, everyWay, setStage, valuesOf } from '../e2e/support.ts'
import { type RecordingUpstream, startRecordingUpstream } from '../support/upstreams/recording-upstream.ts'

const sign = (bytes: Buffer | string) => createHmac('sha256', 'whsec_test').update(bytes).digest('hex')

/** Bytes that a parser would put down differently: spacing, order, a long number, escapes, UTF-8. */
const signedBytes = '{ "amount":\t10.00,"b":1,"a":0.1000000000000000055, "b":2,"name":"Caf\\u00e9 é" }\r\n'

/** An upstream that does what the payments API does: it refuses what is not signed over its exact bytes. */
async function startVerifier(): Promise<RecordingUpstream> {
  return closing(
    await startRecordingUpstream((request, response) => {
      const isGenuine = request.headers['x-signature'] === sign(request.body)
      response.writeHead(isGenuine ? 201 : 401, 'Because I Say So', [
        ...['X-Payments', 'one', 'Set-Cookie', 'a=1; Path=/', 'set-cookie', 'b=2', 'x-PAYMENTS', 'two'],
      ])
      response.end(isGenuine ? signedBytes : 'bad signature')
    }),
  )
}

describe.each(everyWay)(
  'payments and webhooks are relayed unchanged in both directions, through %s: the merchant',
  (_way, open) => {
    test.each(['/checkouts', '/refunds', '/subscriptions/1/cancel'])(
      'has its signature over the exact bytes of POST %s accepted',
      async (path) => {
        const upstream = await startVerifier()
        const { gateway } = await setStage({ PAYMENTS_BASE_URL: upstream.url })
        const answer = await open(gateway)('post', path)
          .set({
            'Content-Type': 'application/json',
            'X-Signature': sign(signedBytes),
            Authorization: 'Bearer k',
          })
          .send(signedBytes)
        expect([answer.status, answer.text]).toEqual([201, signedBytes])
        const seen = upstream.requests[0]
        expect(seen?.body.toString()).toBe(signedBytes)
        for (const name of ['Forwarded', 'Via', 'X-Request-Id', 'X-Forwarded-For']) {
          expect(valuesOf(seen?.rawHeaders, name)).toEqual([])
        }
      },
    )

    test.each([
      '/checkouts?limit=2&limit=1',
      '/checkouts?filter[state]=open&&=&a=%20+%2B',
      '/refunds?after=2026-01-01T00:00:00+02:00&q=%zz',
      '/subscriptions/?=',
      '/checkouts//x%2Fy/%E2%82%AC?next=/../..',
    ])('lists with an odd query, which arrives as it was sent: %s', async (target) => {
      const upstream = closing(await startRecordingUpstream())
      const { gateway } = await setStage({ PAYMENTS_BASE_URL: upstream.url })
      await open(gateway)('get', target)
      expect(upstream.requests[0]?.target).toBe(target)
    })

    test('gets back exactly what the payments API said, headers and all', async () => {
      const upstream = await startVerifier()
      const { gateway } = await setStage({ PAYMENTS_BASE_URL: upstream.url })
      const direct = await fetch(`${upstream.url}/checkouts`)
      const answer = await open(gateway)('get', '/checkouts')
      expect(answer.status).toBe(direct.status)
      expect(answer.text).toBe(await direct.text())
      expect(answer.headers['set-cookie']).toEqual(['a=1; Path=/', 'b=2'])
      expect(answer.headers['x-payments']).toBe('one, two')
    })

    test('receives webhooks whose signature verifies', async () => {
      const receiver = await startVerifier()
      const { gateway } = await setStage({ WEBHOOKS_BASE_URL: `${receiver.url}/internal` })
      const delivery = (bytes: string, signature: string) =>
        open(gateway)('post', '/webhooks/payments?try=1')
          .set({ 'Content-Type': 'application/json', 'X-Signature': signature })
          .send(bytes)
      expect((await delivery(signedBytes, sign(signedBytes))).status).toBe(201)
      expect((await delivery(signedBytes, sign('{}'))).status).toBe(401)
      expect(receiver.requests[0]?.target).toBe('/internal/webhooks/payments?try=1')
    })
  },
)
