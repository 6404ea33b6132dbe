import type { z } from 'zod'
import { type UpstreamName, upstreamTable } from '../../http/upstreams.ts'
import { facts } from '../setting-facts.ts'
import { filePath, proxyUrl } from '../value-schemas.ts'

/** Those that have PEM files of their own. Webhooks go to the team's own receiver, with the files of payments. */
const withFiles = ['swap', 'payments'] as const

/** The settings that name the PEM files of the TLS to an upstream. */
export function tlsFileSettings(name: UpstreamName) {
  const prefix = name === 'swap' ? 'SWAP' : 'PAYMENTS'
  return { ca: `${prefix}_CA_FILE`, cert: `${prefix}_CERT_FILE`, key: `${prefix}_KEY_FILE` } as const
}

type TlsFileSetting = ReturnType<typeof tlsFileSettings>['ca' | 'cert' | 'key']

function tlsRows(): Record<TlsFileSetting, z.ZodType<string | undefined>> {
  const rows = withFiles.flatMap((name) => {
    const { ca, cert, key } = tlsFileSettings(name)
    const { setting } = upstreamTable[name].baseUrl
    const alsoFor = name === 'payments' ? ' and WEBHOOKS_BASE_URL' : ''
    return [
      row(
        ca,
        `PEM file of the certificate authorities that are trusted for ${setting}${alsoFor}. It replaces the system's authorities; ` +
          'NODE_EXTRA_CA_CERTS adds to those instead.',
      ),
      row(
        cert,
        `PEM file of the gateway's certificate for ${setting}${alsoFor}, with its intermediates (mutual TLS). Needs ${key}.`,
      ),
      row(key, `PEM file of the private key of ${cert}, without a passphrase.`, 'unless-path'),
    ]
  })
  return Object.fromEntries<z.ZodType>(rows) as Record<TlsFileSetting, z.ZodType<string | undefined>>
}

function row(name: TlsFileSetting, meaning: string, secret?: 'unless-path') {
  return [name, filePath.optional().register(facts, { meaning, ...(secret && { secret }) })] as const
}

export const egressSettings = {
  ...tlsRows(),
  UPSTREAM_PROXY: proxyUrl.optional().register(facts, {
    secret: 'in-url',
    meaning:
      'The http URL of a proxy through which every https upstream is reached by CONNECT, such as ' +
      'http://user:password@proxy.example.com:3128; user and password are percent-encoded. The proxy resolves the ' +
      'names of these upstreams. An http upstream is connected to directly, and so is the store. HTTPS_PROXY and ' +
      'NO_PROXY change nothing.',
  }),
}
