import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import {
  connect,
  createServer as createTcpServer,
  type LookupFunction,
  type Server,
} from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { proxyStatus } from '../support/clients/problems.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { pause } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import { listening } from '../support/machine/listening.ts'
import { privateCertificate } from '../support/stores/valkey.ts'

const get = 'GET / HTTP/1.1\r\nHost: g\r\n\r\n'

function certificateFor(
  name: string,
  extensions: string[] = [],
): { key: Buffer; cert: Buffer } {
  const { certificate, key } = privateCertificate(name, extensions)
  return { key: readFileSync(key), cert: readFileSync(certificate) }
}

/** To localhost, where this certificate is trusted. */
const edgeTrusting = (ca: Buffer[], port: number) =>
  edgeTo(`https://localhost:${port}`, {}, { tls: { ca } })

const portOf = async (server: Server) => (await listening(server)).port

describe('an upstream that speaks TLS', { tags: ['openssl'] }, () => {
  it('with a certificate for another name is reported each time, and works once it is fixed', async () => {
    const [wrong, right] = [certificateFor('wrong.example'), certificateFor('localhost')]
    const upstream = createServer(wrong, (_request, response) => response.end('ok'))
    const edge = await edgeTrusting([wrong.cert, right.cert], await portOf(upstream))
    for (let times = 0; times < 3; times += 1)
      expect((await rawExchange(edge.url, get)).status).toBe(502)
    upstream.setSecureContext(right)
    expect((await rawExchange(edge.url, get)).status).toBe(200)
  })

  it('with a certificate for clients is reported as such', async () => {
    const unfit = certificateFor('localhost', ['extendedKeyUsage=clientAuth'])
    const port = await portOf(
      createServer(unfit, (_request, response) => response.end('ok')),
    )
    const answer = await rawExchange((await edgeTrusting([unfit.cert], port)).url, get)
    expect([answer.status, proxyStatus(answer)]).toEqual([
      502,
      'quotegate; error=tls_certificate_error',
    ])
  })

  it('is asked again when its first handshake fails: nothing was sent', async () => {
    const right = certificateFor('localhost')
    const real = await portOf(
      createServer(right, (_request, response) => response.end('ok')),
    )
    let connections = 0
    const port = await portOf(
      createTcpServer((socket) => {
        connections += 1
        socket.on('error', () => {})
        // A fatal alert: internal error.
        if (connections === 1)
          return void socket.once('data', () =>
            socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 80])),
          )
        socket.pipe(connect(real, '127.0.0.1').on('error', () => {})).pipe(socket)
      }),
    )
    const edge = await edgeTrusting([right.cert], port)
    expect((await rawExchange(edge.url, post('{}'))).status).toBe(200)
    expect([edge.retries, connections]).toEqual([1, 2])
  })

  // undici 8 offers HTTP/2 unless that is switched off, and the names of fields would arrive in lower case.
  it('is asked for by its name without the final dot (RFC 6066 3), and offered HTTP/1.1 alone', async () => {
    const asked: string[] = []
    const offered: string[][] = []
    const certificate = certificateFor('upstream.test')
    const upstream = createTlsServer({
      ...certificate,
      SNICallback(name, done) {
        asked.push(name)
        done(null)
      },
      ALPNCallback({ protocols }) {
        offered.push(protocols)
        return protocols[0]
      },
    })
    upstream.on('secureConnection', (socket) =>
      socket.end('HTTP/1.1 204 No Content\r\n\r\n'),
    )
    const port = await portOf(upstream)
    const lookup: LookupFunction = (_name, _options, callback) =>
      callback(null, [{ address: '127.0.0.1', family: 4 }])
    const options = { lookup, tls: { ca: certificate.cert } }
    const edge = await edgeTo(`https://upstream.test.:${port}`, { retries: 0 }, options)
    expect((await rawExchange(edge.url, get)).status).toBe(204)
    expect([asked, offered]).toEqual([['upstream.test'], [['http/1.1']]])
  })
})

/**
 * A record that was changed on its way, or a fatal alert: Node tells the error, and leaves the socket open. Undici
 * relies on the end of it.
 */
describe('an upstream whose TLS breaks within a connection', {
  tags: ['openssl'],
}, () => {
  it.each([
    ['stays open', false],
    ['is ended behind that', true],
  ])(
    'and %s: its answer is incomplete, and no client waits until its timeout',
    async (_case, ends) => {
      const { url } = await edgeToBreaking((socket, broken) => {
        socket.write('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf')
        setTimeout(() => broken(ends), 50)
      })
      const { whole, body } = await rawExchange(url, get)
      expect([whole, body.toString()]).toEqual([false, 'half'])
    },
  )

  it('is given no further request on it: a POST takes another one', async () => {
    let posts = 0
    const { url } = await edgeToBreaking((socket, broken, request) => {
      if (request.startsWith('POST')) posts += 1
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      if (request.startsWith('GET')) setTimeout(() => broken(false), 50)
    })
    expect((await rawExchange(url, get)).status).toBe(200)
    await pause(300)
    expect((await rawExchange(url, post('{}'))).status).toBe(200)
    expect(posts).toBe(1)
  })
})

/** `broken` sends a record that is changed on its way, and may end the connection behind it. */
async function edgeToBreaking(
  answer: (socket: TLSSocket, broken: (ends: boolean) => void, request: string) => void,
) {
  const right = certificateFor('localhost')
  let breaks: { ends: boolean } | undefined
  const real = await portOf(
    createTlsServer(right, (socket) => {
      socket.on('error', () => {})
      socket.on('data', (request) => {
        const broken = (ends: boolean) => {
          breaks = { ends }
          socket.write('more')
        }
        answer(socket, broken, String(request))
      })
    }),
  )
  const port = await portOf(
    createTcpServer((socket) => {
      const behind = connect(real, '127.0.0.1')
      socket.on('error', () => behind.destroy()).pipe(behind)
      behind.on('error', () => {}).on('close', () => socket.destroy())
      behind.on('data', (bytes: Buffer) => {
        if (breaks === undefined) return void socket.write(bytes)
        const { ends } = breaks
        breaks = undefined
        bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1)
        if (ends) socket.end(bytes)
        else socket.write(bytes)
      })
    }),
  )
  return edgeTrusting([right.cert], port)
}
