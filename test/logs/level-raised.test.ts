import { Writable } from 'node:stream'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createGateway } from '../../src/index.ts'
import { ask } from '../support/clients/quotes.ts'

test("requests are logged from when an application's logger is set to debug", async () => {
  const lines: string[] = []
  const kept = new Writable({
    write(line, _encoding, written) {
      lines.push(String(line))
      written()
    },
  })
  const logger = pino({ level: 'info' }, kept)
  const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0 }, { logger })
  onTestFinished(() => gateway.close())
  const { trafficUrl } = await gateway.listen()
  const logged = () => lines.filter((line) => line.includes('"msg":"request"')).length
  await ask(trafficUrl)
  expect(logged()).toBe(0)
  logger.level = 'debug'
  await ask(trafficUrl)
  expect(logged()).toBe(1)
})
