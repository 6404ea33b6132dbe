import { createPrivateKey, type KeyObject, randomUUID, X509Certificate } from 'node:crypto'
import { readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import type { UpstreamName } from '../http/upstreams.ts'
import { fitsASocket, makeFolders, maxFolderBytes, missingFolders } from '../process/folders.ts'
import { fileOf, type SecretFileSetting, type SettingValues, secretSettings } from './settings.ts'

/** Reads a whole file. Throws an error that says why it cannot. */
export type ReadFile = (path: string) => Uint8Array

/** What is wrong with a file that a setting names. `expected` repeats nothing of the file. */
interface FileProblem {
  readonly name: string
  readonly expected: string
}

/** Many times what the certificate authorities of a system take. */
const maxBytes = 4 * 2 ** 20

/** A start must not hang on a pipe without a writer or on a device that never ends. */
export function readSystemFile(path: string): Buffer {
  const file = statSync(path)
  if (!file.isFile() && !file.isDirectory()) throw new Error('it is a pipe or a device, not a file')
  if (file.size > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`)
  return readFileSync(path)
}

/** The text of a file, or what would be right in its place. */
export function readText(path: string, readFile: ReadFile): { text: string } | { expected: string } {
  let bytes: Uint8Array
  try {
    bytes = readFile(path)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return { expected: `a file that quotegate can read (${code ?? message})` }
  }
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) }
  } catch {
    return { expected: 'a file of UTF-8 text' }
  }
}

export interface SecretsRead {
  /** The settings as given, with the secrets that were read from files. */
  texts: ReadonlyMap<string, string>
  /** The setting that named the file, by the name of its secret. */
  fileSettingOf: ReadonlyMap<string, SecretFileSetting>
  problems: FileProblem[]
}

/** Any secret may be in a file: its name with _FILE behind it names the file. */
export function readSecretFiles(given: ReadonlyMap<string, string>, readFile: ReadFile): SecretsRead {
  const texts = new Map(given)
  const fileSettingOf = new Map<string, SecretFileSetting>()
  const problems: FileProblem[] = []
  for (const secret of secretSettings) {
    const name = fileOf(secret)
    const path = given.get(name)
    if (path === undefined) continue
    const file = readText(path, readFile)
    const text = 'text' in file ? file.text.replace(/\r?\n$/, '') : ''
    if (given.has(secret)) {
      problems.push({ name, expected: `not set, because ${secret} is set: keep one of the two` })
    } else if ('expected' in file) {
      problems.push({ name, expected: file.expected })
    } else if (text.trim() === '') {
      problems.push({ name, expected: `a file that holds ${secret}; this file is empty` })
    } else {
      texts.set(secret, text)
      fileSettingOf.set(secret, name)
    }
  }
  return { texts, fileSettingOf, problems }
}

/** PEM texts for the TLS to an upstream. `cert` and `key` are both there or both not. */
export interface TlsFiles {
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
}

export interface TlsFilesRead {
  /** Undefined for an upstream for which no file is set. */
  tls: Readonly<Record<UpstreamName, TlsFiles | undefined>>
  problems: FileProblem[]
}

/** What is wrong with a file; its message is what would be right. */
class Unfit extends Error {}

/** Webhooks use the files of payments: both go to the team's own services. */
export function readTlsFiles(values: SettingValues, readFile: ReadFile): TlsFilesRead {
  const problems: FileProblem[] = []

  /** Reads the file that a setting names. For one that is wrong it adds a problem and returns undefined. */
  function read<Parsed>(name: keyof SettingValues, parse: (text: string) => Parsed) {
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

  function filesOf(prefix: 'SWAP' | 'PAYMENTS'): TlsFiles | undefined {
    const [certName, keyName] = [`${prefix}_CERT_FILE`, `${prefix}_KEY_FILE`] as const
    const ca = read(`${prefix}_CA_FILE`, readCertificates)
    const cert = read(certName, readCertificates)
    const key = read(keyName, readKey)
    if ((values[certName] === undefined) !== (values[keyName] === undefined)) {
      const [missing, other] = values[certName] === undefined ? [certName, keyName] : [keyName, certName]
      problems.push({ name: missing, expected: `a PEM file, because ${other} is set: each needs the other` })
    } else if (cert !== undefined && key !== undefined) {
      if (!cert.parsed[0].checkPrivateKey(key.parsed))
        problems.push({ name: keyName, expected: `the private key of the certificate in ${certName}` })
      else if (!isAccepted(cert.text, key.text)) {
        const expected = 'a certificate and key that OpenSSL accepts: these are too weak'
        problems.push({ name: certName, expected })
      }
    }
    if (ca === undefined && cert === undefined && key === undefined) return undefined
    return { ca: ca?.text, cert: cert?.text, key: key?.text }
  }
  const [swap, payments] = [filesOf('SWAP'), filesOf('PAYMENTS')]
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
    const form = 'a PEM file of a private key (-----BEGIN PRIVATE KEY-----)'
    throw new Unfit(text.includes('ENCRYPTED') ? `${form} without a passphrase` : form)
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

/** Says what would be right if files cannot be kept in the folder; undefined: they can. */
export type TryDirectory = (path: string) => string | undefined

/** Tries what a start does with STATE_DIRECTORY, and leaves nothing behind. A gateway may be using it meanwhile. */
export const tryDirectory: TryDirectory = (written) => {
  if (!fitsASocket(written)) return `a path of at most ${maxFolderBytes} bytes, because its lock is a socket`
  const path = resolve(written)
  const missing = missingFolders(path)
  const file = join(path, `check-config-${randomUUID()}`)
  try {
    makeFolders(path)
    // A disk that is full accepts an empty file.
    writeFileSync(file, 'quotegate --check-config', { flag: 'wx', mode: 0o600 })
    return undefined
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return `a folder that quotegate can create and write to (${code ?? message})`
  } finally {
    withoutFailing(() => rmSync(file, { force: true }))
    // One that is not empty is in use: a gateway has started meanwhile.
    for (const folder of missing) withoutFailing(() => rmdirSync(folder))
  }
}

function withoutFailing(step: () => void): void {
  try {
    step()
  } catch {
    // What could not be created cannot be removed.
  }
}
