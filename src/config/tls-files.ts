import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { UpstreamName } from '../http/upstreams.ts'
import { type ReadFile, readText } from './read-file.ts'
import { tlsFileSettings } from './settings/egress.ts'
import type { SettingName, SettingValues } from './settings.ts'

/** PEM texts for the TLS to an upstream. `cert` and `key` are both there or both not. */
export interface TlsFiles {
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
}

export interface TlsFilesRead {
  /** Undefined for an upstream for which no file is set. */
  tls: Readonly<Record<UpstreamName, TlsFiles | undefined>>
  problems: { name: SettingName; expected: string }[]
}

/** What is wrong with a file; `expected` is what would be right. */
class Unfit extends Error {}

export function readTlsFiles(values: SettingValues, readFile: ReadFile): TlsFilesRead {
  const problems: TlsFilesRead['problems'] = []

  /** Reads the file that a setting names. For one that is wrong it adds a problem and returns undefined. */
  function read<Parsed>(name: SettingName, parse: (text: string) => Parsed) {
    const path = values[name] as string | undefined
    if (path === undefined) return undefined
    const file = readText(path, readFile)
    try {
      if ('expected' in file) throw new Unfit(file.expected)
      return { text: file.text, parsed: parse(file.text) }
    } catch (error) {
      if (!(error instanceof Unfit)) throw error
      problems.push({ name, expected: error.message })
      return undefined
    }
  }

  function filesOf(upstream: 'swap' | 'payments'): TlsFiles | undefined {
    const names = tlsFileSettings(upstream)
    const isSet = (part: 'ca' | 'cert' | 'key') => values[names[part]] !== undefined
    if (!isSet('ca') && !isSet('cert') && !isSet('key')) return undefined
    const ca = read(names.ca, readCertificates)
    const cert = read(names.cert, readCertificates)
    const key = read(names.key, readKey)
    if (isSet('cert') !== isSet('key')) {
      const [missing, other] = isSet('cert') ? [names.key, names.cert] : [names.cert, names.key]
      problems.push({ name: missing, expected: `a PEM file, because ${other} is set: each needs the other` })
    }
    if (cert !== undefined && key !== undefined) {
      if (!cert.parsed[0].checkPrivateKey(key.parsed)) {
        problems.push({ name: names.key, expected: `the private key of the certificate in ${names.cert}` })
      } else if (!isAccepted(cert.text, key.text)) {
        problems.push({
          name: names.cert,
          expected: 'a certificate and key that OpenSSL accepts: these are too weak',
        })
      }
    }
    return { ca: ca?.text, cert: cert?.text, key: key?.text }
  }
  const [swap, payments] = [filesOf('swap'), filesOf('payments')]
  return { tls: { swap, payments, webhooks: payments }, problems }
}

const certificatePattern = /-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/gs

/** Every certificate of a PEM file. Node takes text that it cannot parse for a list of no authorities. */
function readCertificates(text: string): [X509Certificate, ...X509Certificate[]] {
  const begun = text.split('-----BEGIN CERTIFICATE-----').length - 1
  const blocks = text.match(certificatePattern) ?? []
  try {
    const [first, ...rest] = blocks.map((block) => new X509Certificate(block))
    if (first !== undefined && begun === blocks.length) return [first, ...rest]
  } catch {
    // The text is not repeated, because a key may be in it.
  }
  throw new Unfit('a PEM file of whole certificates (-----BEGIN CERTIFICATE-----)')
}

function readKey(text: string): KeyObject {
  try {
    return createPrivateKey(text)
  } catch {
    const isEncrypted = text.includes('ENCRYPTED')
    throw new Unfit(
      `a PEM file of a private key (-----BEGIN PRIVATE KEY-----)${isEncrypted ? ' without a passphrase' : ''}`,
    )
  }
}

/** OpenSSL refuses a pair that is too weak, such as RSA with 512 bits. */
function isAccepted(cert: string, key: string): boolean {
  try {
    createSecureContext({ cert, key })
    return true
  } catch {
    return false
  }
}
