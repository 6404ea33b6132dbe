import { expect, test } from 'vitest'
import { pause } from '../support/gateways/between.ts'
import { startGatewayProcess } from '../support/gateways/gateway-process.ts'
import { freePort } from '../support/machine/free-port.ts'
import { privateCertificate, valkey } from '../support/stores/valkey.ts'

// That it is refused without the authority: valkey-down.test.ts.
test('a store whose authority NODE_EXTRA_CA_CERTS names is trusted', {
  tags: ['redis-server', 'openssl'],
}, async () => {
  const tls = privateCertificate()
  const server = await valkey({ tls, password: 'secret' })
  const adminPort = String(await freePort())
  await startGatewayProcess({
    VALKEY_URL: server.url,
    NODE_EXTRA_CA_CERTS: tls.authority,
    ADMIN_PORT: adminPort,
    SWAP_BASE_URL: 'http://127.0.0.1:9',
  })
  const isUp = async () => {
    const answer = await fetch(`http://127.0.0.1:${adminPort}/status`)
    return ((await answer.json()) as { store: { up: boolean } }).store.up
  }
  const deadline = performance.now() + 15_000
  while (!(await isUp()) && performance.now() < deadline) await pause(20)
  expect(await isUp()).toBe(true)
})
