import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { TLSSocket, TlsOptions } from 'node:tls'
import { listening } from '../machine/listening.ts'
import { privateCertificate } from '../stores/valkey.ts'

/** Paths of PEM files, and their texts. The certificate vouches for itself. */
export interface Identity {
  certFile: string
  keyFile: string
  cert: string
  key: string
}

export function identityOf(name = 'localhost'): Identity {
  const { certificate, key } = privateCertificate(name)
  return {
    certFile: certificate,
    keyFile: key,
    cert: readFileSync(certificate, 'utf8'),
    key: readFileSync(key, 'utf8'),
  }
}

export interface TlsUpstream {
  port: number
  /** In order, each with the common name of its client's certificate. */
  requests: {
    method: string
    target: string
    rawHeaders: string[]
    body: Buffer
    client: unknown
  }[]
  connections: number
  /** How many were open together. */
  mostAtOnce: number
}

/** A real upstream that speaks TLS, and answers each request with the request's own body. */
export async function tlsUpstream(
  identity: Identity,
  options: TlsOptions = {},
): Promise<TlsUpstream> {
  const requests: TlsUpstream['requests'] = []
  const server = createServer(
    { cert: identity.cert, key: identity.key, ...options },
    (request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', () => {})
      request.on('end', () => {
        const { method = '', url: target = '', rawHeaders } = request
        const client = (request.socket as TLSSocket).getPeerCertificate().subject?.CN
        const body = Buffer.concat(chunks)
        requests.push({ method, target, rawHeaders, body, client })
        response.end(body)
      })
    },
  )
  server.on('tlsClientError', () => {})
  const upstream = {
    port: (await listening(server)).port,
    requests,
    connections: 0,
    mostAtOnce: 0,
  }
  let open = 0
  server.on('secureConnection', (socket) => {
    upstream.connections += 1
    open += 1
    upstream.mostAtOnce = Math.max(upstream.mostAtOnce, open)
    socket.once('close', () => {
      open -= 1
    })
  })
  return upstream
}
