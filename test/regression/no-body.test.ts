import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createGateway } from '../../src/index.ts'
import { attack } from '../support/clients/attack.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { pause } from '../support/gateways/between.ts'

/**
 * With this option, of Node 24.12 and later, the stream of a request without a body has ended, and is destroyed, before
 * the request is seen, and emits nothing: whatever waits for its end would wait until a timer ends it.
 */
const emptyRequests = { optimizeEmptyRequests: true }

describe.each(['the traffic server', 'a server that the gateway is mounted in'])(
  'on %s',
  (where) => {
    let url: string
    const closing: (() => Promise<unknown>)[] = []
    beforeAll(async () => {
      const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0, LOG_LEVEL: 'silent' })
      closing.push(() => gateway.close())
      url = (await gateway.listen()).trafficUrl
      if (where === 'the traffic server') return
      const server = createServer(
        { ...emptyRequests, noDelay: true },
        gateway.app,
      ).listen(0, '127.0.0.1')
      await new Promise((resolve) => server.once('listening', resolve))
      closing.unshift(() => new Promise((resolve) => server.close(resolve)))
      url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    })
    afterAll(async () => {
      for (const close of closing) await close()
    })

    test.each([
      ['/v3/orders/float', 'Connection: close'],
      ['/v3/orders/float', 'Content-Length: 0\r\nConnection: close'],
      ['/v3/orders', 'Connection: close'],
      ['/v3/orders', 'Idempotency-Key: one\r\nConnection: close'],
    ])('a POST without a body to %s (%s) is answered at once', async (path, headers) => {
      const beganMs = performance.now()
      const { answers } = await attack(
        url,
        `POST ${path} HTTP/1.1\r\nHost: gateway\r\n${headers}\r\n\r\n`,
      )
      expect(answers.map(({ status }) => status)).toEqual([400])
      expect(performance.now() - beganMs).toBeLessThan(2_000)
    })

    test.each(['1.0', '1.1'])(
      'a refused GET of HTTP/%s that closes is answered at once',
      async (version) => {
        const beganMs = performance.now()
        const head = `GET /nothing HTTP/${version}\r\nHost: gateway\r\nConnection: close\r\n\r\n`
        const { answers } = await attack(url, head)
        expect(answers.map(({ status }) => status)).toEqual([404])
        expect(performance.now() - beganMs).toBeLessThan(2_000)
      },
    )

    test('a connection lives on behind a refusal, an OPTIONS and a hit', async () => {
      const connection = new RawConnection(url)
      const ask = (method: string, target: string) => {
        const headers =
          'Host: gateway\r\nApp-Name: wallet\r\nAuthorization: Bearer any\r\nMax-Forwards: 0\r\n'
        connection.write(`${method} ${target} HTTP/1.1\r\n${headers}\r\n`)
        return connection.answer()
      }
      for (const afterMs of [0, 2_200]) {
        // A body that is not read may pause for two seconds.
        await pause(afterMs)
        expect((await ask('GET', '/nothing')).status).toBe(404)
        expect((await ask('OPTIONS', '/v3/pairs')).status).toBe(204)
        for (let hits = 0; hits < 2; hits += 1)
          expect((await ask('GET', '/v3/pairs/ETH_USDC/quotes?amount=1')).status).toBe(
            200,
          )
      }
    })
  },
)
