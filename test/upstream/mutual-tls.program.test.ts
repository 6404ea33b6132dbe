import { createPrivateKey } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { SettingValue } from '../../src/config/problems.ts'
import { errorOf } from '../config/support.ts'
import { post } from '../support/clients/orders.ts'
import { proxyStatus } from '../support/clients/problems.ts'
import { ask } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo } from '../support/gateways/between.ts'
import { startGatewayProcess } from '../support/gateways/gateway-process.ts'
import { identityOf, tlsUpstream } from '../support/upstreams/tls-upstream.ts'

const checkout = post('{"amount":"1.00"}', { path: '/checkouts' })

describe('an upstream with an authority of its own', { tags: ['openssl'] }, () => {
  it('is reached with SWAP_CA_FILE, and refused without', async () => {
    const identity = identityOf()
    const upstream = await tlsUpstream(identity)
    const url = `https://localhost:${upstream.port}`
    const gateway = await gatewayTo(url, { SWAP_CA_FILE: identity.certFile })
    const swap = await rawExchange(
      gateway.url,
      'GET /v3/pairs HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n\r\n',
    )
    // The file is that of the swap API alone.
    const payments = await rawExchange(gateway.url, checkout)
    expect([swap.status, payments.status, proxyStatus(payments)]).toEqual([
      200,
      502,
      'quotegate; error=tls_certificate_error',
    ])
    expect(upstream.requests.map(({ target }) => target)).toEqual(['/v3/pairs'])
  })

  it('PAYMENTS_CA_FILE replaces the authorities of the system, for webhooks too', async () => {
    const [identity, other] = [identityOf(), identityOf('other')]
    const url = `https://localhost:${(await tlsUpstream(identity)).port}`
    const gateway = await startGatewayProcess({
      SWAP_BASE_URL: url,
      PAYMENTS_BASE_URL: url,
      WEBHOOKS_BASE_URL: url,
      NODE_EXTRA_CA_CERTS: identity.certFile,
      PAYMENTS_CA_FILE: other.certFile,
    })
    const status = async (path: string) => (await ask(gateway.url, { path })).status
    const paths = ['/v3/pairs', '/checkouts', '/webhooks']
    expect(await Promise.all(paths.map(status))).toEqual([200, 502, 502])
  })
})

describe('an upstream that asks for a certificate', { tags: ['openssl'] }, () => {
  it('gets that of its own settings, webhooks that of payments, also on a connection that resumes a session', async () => {
    const [identity, payer] = [identityOf(), identityOf('payer')]
    const upstream = await tlsUpstream(identity, {
      requestCert: true,
      rejectUnauthorized: true,
      ca: [payer.cert],
    })
    const gateway = await gatewayTo(`https://localhost:${upstream.port}`, {
      WEBHOOKS_BASE_URL: `https://localhost:${upstream.port}`,
      PAYMENTS_CA_FILE: identity.certFile,
      PAYMENTS_CERT_FILE: payer.certFile,
      PAYMENTS_KEY_FILE: payer.keyFile,
      SWAP_CA_FILE: identity.certFile,
    })
    const together = await Promise.all(
      [1, 2, 3].map(() => rawExchange(gateway.url, checkout)),
    )
    const webhook = await rawExchange(gateway.url, post('{}', { path: '/webhooks/paid' }))
    expect([...together, webhook].map(({ status }) => status)).toEqual([
      200, 200, 200, 200,
    ])
    expect(upstream.requests.map(({ client }) => client)).toEqual([
      'payer',
      'payer',
      'payer',
      'payer',
    ])
    const swap = await rawExchange(
      gateway.url,
      'GET /v3/pairs HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n\r\n',
    )
    expect([swap.status, upstream.requests.length]).toEqual([502, 4])
  })
})

function problemsOf(given: Record<string, SettingValue>): Record<string, string> {
  const { message = '', problems = [] } =
    errorOf({ SWAP_BASE_URL: 'https://swap.example', ...given }) ?? {}
  expect(message).not.toMatch(/^[A-Za-z0-9+/=]{64}$/m)
  return Object.fromEntries(problems.map(({ name, expected }) => [name, expected]))
}

const says = (text: string) => expect.stringContaining(text)

describe('a start is stopped by', { tags: ['openssl'] }, () => {
  it('a key of another certificate, or one without the other', () => {
    const [one, other] = [identityOf(), identityOf()]
    expect(
      problemsOf({ SWAP_CERT_FILE: one.certFile, SWAP_KEY_FILE: one.keyFile }),
    ).toEqual({})
    expect(
      problemsOf({ SWAP_CERT_FILE: one.certFile, SWAP_KEY_FILE: other.keyFile }),
    ).toEqual({
      SWAP_KEY_FILE: says('of the certificate in SWAP_CERT_FILE'),
    })
    expect(
      problemsOf({ SWAP_CERT_FILE: one.certFile, PAYMENTS_KEY_FILE: one.keyFile }),
    ).toEqual({
      SWAP_KEY_FILE: says('because SWAP_CERT_FILE is set'),
      PAYMENTS_CERT_FILE: says('because PAYMENTS_KEY_FILE is set'),
    })
  })

  it('files that are missing, files with other content, and a key with a passphrase', () => {
    const { certFile, keyFile, key } = identityOf()
    expect(problemsOf({ SWAP_CA_FILE: '/nowhere' })).toEqual({
      SWAP_CA_FILE: says('ENOENT'),
    })
    expect(
      problemsOf({
        SWAP_CA_FILE: keyFile,
        SWAP_CERT_FILE: keyFile,
        SWAP_KEY_FILE: certFile,
      }),
    ).toEqual({
      SWAP_CA_FILE: says('whole certificates'),
      SWAP_CERT_FILE: says('whole certificates'),
      SWAP_KEY_FILE: says('a private key'),
    })
    const locked = {
      type: 'pkcs8',
      format: 'pem',
      cipher: 'aes-256-cbc',
      passphrase: 'x',
    } as const
    writeFileSync(keyFile, createPrivateKey(key).export(locked))
    expect(problemsOf({ SWAP_CERT_FILE: certFile, SWAP_KEY_FILE: keyFile })).toEqual({
      SWAP_KEY_FILE: says('without a passphrase'),
    })
  })

  it('a list of authorities of which one cannot be read: Node would use the rest', () => {
    const { cert, certFile } = identityOf()
    for (const broken of [cert.slice(0, -40), cert.replace(/MII/, 'AAA')]) {
      writeFileSync(certFile, cert + broken)
      expect(problemsOf({ SWAP_CA_FILE: certFile })).toEqual({
        SWAP_CA_FILE: expect.any(String),
      })
    }
    writeFileSync(certFile, `Our authorities\n${cert}${cert}`)
    expect(problemsOf({ SWAP_CA_FILE: certFile })).toEqual({})
  })
})

describe('files for an upstream without TLS are warned of', { tags: ['openssl'] }, () => {
  it.each([{ SWAP_BASE_URL: 'sandbox' }, { SWAP_BASE_URL: 'http://127.0.0.1:9000' }])(
    '%j',
    (given) => {
      const { certFile, keyFile } = identityOf()
      const files = {
        SWAP_CA_FILE: certFile,
        SWAP_CERT_FILE: certFile,
        SWAP_KEY_FILE: keyFile,
      }
      const why = 'is set and has no effect, because SWAP_BASE_URL is not an https URL'
      const warnings = Object.keys(files).map((name) => says(`${name} ${why}`))
      expect(loadConfig({ ...given, ...files }).warnings).toEqual(warnings)
    },
  )

  it.each([
    [{}, 1],
    [{ PAYMENTS_BASE_URL: 'https://pay.example' }, 0],
    [
      {
        PAYMENTS_BASE_URL: 'http://127.0.0.1:9000',
        WEBHOOKS_BASE_URL: 'https://hooks.example',
      },
      0,
    ],
  ])('PAYMENTS_CA_FILE needs TLS to payments or to webhooks: %j', (given, count) => {
    const files = {
      SWAP_BASE_URL: 'https://swap.example',
      PAYMENTS_CA_FILE: identityOf().certFile,
    }
    const { warnings } = loadConfig({ ...files, ...given })
    const text = 'neither PAYMENTS_BASE_URL nor WEBHOOKS_BASE_URL is an https URL'
    expect(warnings.filter((warning) => warning.includes(text))).toHaveLength(count)
  })
})
