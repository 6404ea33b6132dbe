import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { type AddressInfo, connect, createServer as createTcpServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startGatewayProcess } from '../support/gateway-process.ts'
import { post } from '../support/orders.ts'
import { ask } from '../support/quotes.ts'
import { rawExchange } from '../support/raw-connection.ts'
import { privateCertificate } from '../support/valkey.ts'

const hasOpenssl = spawnSync('openssl', ['version']).status === 0

function certificateFor(name: string): { key: Buffer; cert: Buffer } {
  const { certificate, key } = privateCertificate(name)
  return { key: readFileSync(key), cert: readFileSync(certificate) }
}

/** Where NODE_EXTRA_CA_CERTS finds them. */
function trusting(...certificates: readonly { cert: Buffer }[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-tls-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'trusted.pem')
  writeFileSync(path, Buffer.concat(certificates.map(({ cert }) => cert)))
  return path
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

describe.skipIf(!hasOpenssl)('an upstream that speaks TLS', () => {
  it('with a certificate for another name is told each time, and works once that is mended', async () => {
    const [wrong, right] = [certificateFor('wrong.example'), certificateFor('localhost')]
    const upstream = createServer(wrong, (_request, response) => response.end('ok'))
    const port = await listening(upstream)
    const { url } = await startGatewayProcess({
      SWAP_BASE_URL: `https://localhost:${port}`,
      PAYMENTS_BASE_URL: `https://localhost:${port}`,
      NODE_EXTRA_CA_CERTS: trusting(wrong, right),
    })
    const get = () => ask(url, { path: '/checkouts', signal: AbortSignal.timeout(10_000) })
    for (let times = 0; times < 3; times += 1) expect((await get()).status).toBe(502)
    upstream.setSecureContext(right)
    expect((await get()).status).toBe(200)
  })

  it('is asked again when its first handshake fails: nothing was sent', async () => {
    const right = certificateFor('localhost')
    const real = await listening(createServer(right, (_request, response) => response.end('ok')))
    let connections = 0
    const port = await listening(
      createTcpServer((socket) => {
        connections += 1
        socket.on('error', () => {})
        // A fatal alert: internal error.
        if (connections === 1)
          return void socket.once('data', () => socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 80])))
        socket.pipe(connect(real, '127.0.0.1').on('error', () => {})).pipe(socket)
      }),
    )
    const { url } = await startGatewayProcess({
      SWAP_BASE_URL: `https://localhost:${port}`,
      PAYMENTS_BASE_URL: `https://localhost:${port}`,
      NODE_EXTRA_CA_CERTS: trusting(right),
    })
    expect((await rawExchange(url, post('{}', { path: '/checkouts' }))).status).toBe(200)
  })
})
