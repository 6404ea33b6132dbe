import { rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { onSignalsAndErrors } from '../../src/process/signals.ts'
import { act, statusOf } from '../operations/support.ts'
import { ask, counted } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'
import { listening } from '../support/machine/listening.ts'
import { newFolder } from '../support/machine/new-folder.ts'
import { keptLog } from '../support/observing/log-lines.ts'
import { identityOf, tlsUpstream } from '../support/upstreams/tls-upstream.ts'

const failures = 'quotegate_file_failures_total{operation="secrets"}'

function secretFile(text: string) {
  const path = join(newFolder(), 'secret')
  writeFileSync(path, text)
  return path
}

describe('files of secrets are read again', () => {
  it('SWAP_AUTHORIZATION goes out with the next request, ADMIN_TOKEN counts for the next', async () => {
    const upstream = await recordingUpstream()
    const [key, token] = [secretFile('Bearer old\n'), secretFile('old-token-123456')]
    const { logger, lines } = await keptLog()
    const gateway = await gatewayTo(
      upstream.url,
      {
        SWAP_AUTHORIZATION_FILE: key,
        ADMIN_TOKEN_FILE: token,
        QUOTE_KEY_HEADERS: 'app-name',
      },
      { logger },
    )
    const bearer = (text: string) => ({ Authorization: `Bearer ${text}` })
    const sent = async () => {
      await ask(gateway.url, { path: '/v3/assets' })
      await ask(gateway.url)
      return upstream.requests.splice(0).map(({ headers }) => headers.authorization)
    }
    expect(await sent()).toEqual(['Bearer old', 'Bearer old'])
    writeFileSync(key, 'Bearer new\n')
    writeFileSync(token, 'new-token-123456')
    expect(await sent()).toEqual(['Bearer old', 'Bearer old'])
    const answer = await act(gateway, 'read-secrets', {}, bearer('old-token-123456'))
    expect(JSON.parse(answer.body)).toEqual({
      changed: ['SWAP_AUTHORIZATION_FILE', 'ADMIN_TOKEN_FILE'],
      unchanged: [],
      failed: [],
      notReadAgain: ['VALKEY_URL', 'UPSTREAM_PROXY'],
    })
    expect(await sent()).toEqual(['Bearer new', 'Bearer new'])
    expect(
      (await act(gateway, 'read-secrets', {}, bearer('old-token-123456'))).status,
    ).toBe(401)
    expect((await statusOf(gateway, bearer('new-token-123456'))).access).toBe('full')
    const said = lines().filter(({ msg }) => /read again/.test(String(msg)))
    expect(said.map(({ level, msg }) => [level, msg])).toEqual([
      [
        'info',
        'the files of secrets were read again; VALKEY_URL and UPSTREAM_PROXY are read at a start alone',
      ],
    ])
  })

  it('what cannot be used is named, never shown, and counted, and the old one stays', async () => {
    const upstream = await recordingUpstream()
    const [key, token] = [secretFile('Bearer old'), secretFile('old-token-123456')]
    const { logger, lines } = await keptLog()
    const files = { SWAP_AUTHORIZATION_FILE: key, ADMIN_TOKEN_FILE: token }
    const gateway = await gatewayTo(upstream.url, files, { logger })
    writeFileSync(key, 'Bearer s3cr\u0001et')
    rmSync(token)
    gateway.readSecretsAgain()
    await ask(gateway.url, { path: '/v3/assets' })
    expect(upstream.requests[0]?.headers.authorization).toBe('Bearer old')
    const bearer = { Authorization: 'Bearer old-token-123456' }
    expect((await statusOf(gateway, bearer)).access).toBe('full')
    expect(await counted(gateway, failures)).toBe(2)
    const said = lines().filter(({ level }) => level === 'error')
    expect(said.map(({ setting }) => setting)).toEqual(Object.keys(files))
    expect(JSON.stringify(said)).not.toMatch(/s3cr|old-token|Bearer/)
    // One that can be used is, whatever became of the others.
    writeFileSync(key, 'Bearer new')
    gateway.readSecretsAgain()
    await ask(gateway.url, { path: '/v3/assets' })
    expect(upstream.requests[1]?.headers.authorization).toBe('Bearer new')
    expect(await counted(gateway, failures)).toBe(3)
  })
})

describe('a certificate of ours is read again', { tags: ['openssl'] }, () => {
  /** An upstream that asks for a certificate and notes whose it was, of a connection that is open. */
  async function stage(
    settings: Record<string, string | number> = {},
    lineTo: (port: number) => Promise<{ port: number }> | undefined = () => undefined,
  ) {
    const [server, first, second] = [
      identityOf(),
      identityOf('first'),
      identityOf('second'),
    ]
    const upstream = await tlsUpstream(server, {
      requestCert: true,
      rejectUnauthorized: true,
      ca: [first.cert, second.cert],
    })
    const [cert, key] = [secretFile(first.cert), secretFile(first.key)]
    const { port } = (await lineTo(upstream.port)) ?? upstream
    const gateway = await gatewayTo(`https://localhost:${port}`, {
      SWAP_CA_FILE: server.certFile,
      SWAP_CERT_FILE: cert,
      SWAP_KEY_FILE: key,
      PAYMENTS_CA_FILE: server.certFile,
      PAYMENTS_CERT_FILE: cert,
      PAYMENTS_KEY_FILE: key,
      retries: 0,
      ...settings,
    })
    return { cert, key, first, second, gateway, upstream }
  }

  it('under load no request fails, no request that begins later has the old one, and there are never more connections', async () => {
    const connections = 8
    const { cert, key, second, gateway, upstream } = await stage({
      UPSTREAM_CONNECTIONS: connections,
    })
    const statuses: number[] = []
    let isOver = false
    let sent = 0
    const one = async () => {
      sent += 1
      const number = sent
      const path =
        number % 3 === 0 ? '/checkouts' : `/v3/orders${number % 3 === 1 ? '/float' : ''}`
      const body = `{"pairId":"A_B","fromAmount":${number}}`
      const answer = await ask(gateway.url, { method: 'POST', path, body })
      statuses.push(answer.status)
      return number
    }
    const client = async () => {
      while (!isOver) await one()
    }
    const clients = Array.from({ length: 24 }, client)
    await until(() => statuses.length > 100, 'load')
    writeFileSync(cert, second.cert)
    // Between the two files they do not belong together.
    const between = JSON.parse((await act(gateway, 'read-secrets')).body)
    expect(between.failed).toEqual(['SWAP_KEY_FILE', 'PAYMENTS_KEY_FILE'])
    writeFileSync(key, second.key)
    const read = JSON.parse((await act(gateway, 'read-secrets')).body)
    expect([read.changed.length, read.failed]).toEqual([6, []])
    const began = sent
    const seen = upstream.requests.length
    await until(() => statuses.length > began + 200, 'load on the new one')
    isOver = true
    await Promise.all(clients)
    expect(new Set(statuses)).toEqual(new Set([200]))
    const later = upstream.requests.slice(seen).filter(({ body }) => {
      return Number(JSON.parse(body.toString()).fromAmount) > began
    })
    expect(later.length).toBeGreaterThan(100)
    expect(new Set(later.map(({ client }) => client))).toEqual(new Set(['second']))
    expect(upstream.requests.map(({ client }) => client)).toContain('first')
    // Swap and payments have as many each.
    expect(upstream.mostAtOnce).toBeLessThanOrEqual(2 * connections)
  })

  it('a connection that was being made with the old one takes no second request', async () => {
    const held: (() => void)[] = []
    let isHeld = true
    const { cert, key, second, gateway, upstream } = await stage({}, (port) => {
      const line = createServer((socket) => {
        const onward = connect(port, '127.0.0.1')
        for (const one of [socket, onward]) one.on('error', () => {})
        socket.on('close', () => onward.destroy())
        const begin = () => void socket.pipe(onward).pipe(socket)
        if (isHeld) held.push(begin)
        else begin()
      })
      return listening(line)
    })
    const first = ask(gateway.url, { path: '/v3/assets' })
    await until(() => held.length === 1, 'a connection that is being made')
    writeFileSync(cert, second.cert)
    writeFileSync(key, second.key)
    gateway.readSecretsAgain()
    isHeld = false
    for (const begin of held) begin()
    expect((await first).status).toBe(200)
    expect((await ask(gateway.url, { path: '/v3/assets' })).status).toBe(200)
    expect(upstream.requests.map(({ client }) => client)).toEqual(['first', 'second'])
  })

  it('an idle connection of the old one is closed at once', async () => {
    const { cert, key, second, gateway } = await stage()
    const idle = 'quotegate_upstream_connections{upstream="swap",state="idle"}'
    await ask(gateway.url, { path: '/v3/assets' })
    expect(await counted(gateway, idle)).toBe(1)
    writeFileSync(cert, second.cert)
    writeFileSync(key, second.key)
    gateway.readSecretsAgain()
    expect(await counted(gateway, idle)).toBe(0)
    // The same files again have nothing made again.
    await ask(gateway.url, { path: '/v3/assets' })
    gateway.readSecretsAgain()
    expect(await counted(gateway, idle)).toBe(1)
  })
})

describe('SIGHUP', () => {
  it('has the files read again, and ends nothing', async () => {
    const upstream = await recordingUpstream()
    const key = secretFile('Bearer old')
    const program = await startListening({
      SWAP_BASE_URL: upstream.url,
      SWAP_AUTHORIZATION_FILE: key,
      DRAIN_DELAY_MS: '1000',
    })
    writeFileSync(key, 'Bearer new')
    program.child.kill('SIGHUP')
    await program.says(/"changed":\["SWAP_AUTHORIZATION_FILE"\]/)
    await ask(program.url, { path: '/v3/assets' })
    expect(upstream.requests[0]?.headers.authorization).toBe('Bearer new')
    program.child.kill('SIGTERM')
    await program.says(/stopping: /)
    program.child.kill('SIGHUP')
    program.child.kill('SIGHUP')
    expect((await program.exit).code).toBe(0)
    expect(program.stdout().match(/read again/g)).toHaveLength(1)
  })

  it.each([
    ['a terminal', true, ['close']],
    ['a pipe', false, ['read again']],
  ])('where standard output is %s', async (_what, isTTY, happened) => {
    const was = process.stdout.isTTY
    const exit = vi.spyOn(process, 'exit').mockImplementation(() => undefined as never)
    const { logger } = await keptLog()
    const seen: string[] = []
    process.stdout.isTTY = isTTY
    onSignalsAndErrors(logger, {
      close: async () => void seen.push('close'),
      readAgain: () => void seen.push('read again'),
    })
    process.stdout.isTTY = was
    onTestFinished(() => {
      exit.mockRestore()
      for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP', 'uncaughtException'])
        process.off(name, process.listeners(name as NodeJS.Signals).at(-1) ?? (() => {}))
    })
    process.emit('SIGHUP', 'SIGHUP')
    expect(seen).toEqual(happened)
    process.emit('SIGTERM', 'SIGTERM')
    process.emit('SIGHUP', 'SIGHUP')
    expect(seen).toEqual([...new Set([...happened, 'close'])])
  })
})
