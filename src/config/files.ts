import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { type Note, Wrong } from './problems.ts'
import {
  fileOf,
  type SecretFileSetting,
  type SettingName,
  type SettingValues,
  secretSettings,
} from './settings.ts'

/** Reads a whole file. Throws an error that says why it cannot. */
export type ReadFile = (path: string) => Uint8Array

/** Many times what the certificate authorities of a system take. */
const maxBytes = 4 * 2 ** 20

/** A start must not hang on a pipe without a writer or on a device that never ends. */
export function readSystemFile(path: string): Buffer {
  const file = statSync(path)
  if (!file.isFile() && !file.isDirectory()) throw new Error('it is a pipe or a device, not a file')
  if (file.size > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`)
  return readFileSync(path)
}

/** Throws Wrong for a file that cannot be read or is not text. */
export function readText(path: string, readFile: ReadFile): string {
  let bytes: Uint8Array
  try {
    bytes = readFile(path)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new Wrong(`a file that quotegate can read (${code ?? message})`)
  }
  try {
    // A byte order mark does not belong to the text, and is dropped.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new Wrong('a file of UTF-8 text')
  }
}

/** What `step` returns; undefined if it throws Wrong, which is noted for the setting that names the file. */
function noting<Result>(note: Note, name: string, step: () => Result): Result | undefined {
  try {
    return step()
  } catch (error) {
    if (!(error instanceof Wrong)) throw error
    note(name, error.message)
    return undefined
  }
}

/**
 * Any secret may be in a file: its name with _FILE behind it names the file. Adds those secrets to the texts, and
 * returns the setting that named the file by the name of its secret.
 */
export function readSecretFiles(texts: Map<string, string>, readFile: ReadFile, note: Note) {
  const fileOfSecret = new Map<string, SecretFileSetting>()
  for (const secret of secretSettings) {
    const name = fileOf(secret)
    const path = texts.get(name)
    if (path === undefined) continue
    const text = noting(note, name, () => {
      if (texts.has(secret)) throw new Wrong(`not set, because ${secret} is set: keep one of the two`)
      const whole = readText(path, readFile).replace(/\r?\n$/, '')
      if (whole.trim() === '') throw new Wrong(`a file that holds ${secret}; this file is empty`)
      return whole
    })
    if (text === undefined) continue
    texts.set(secret, text)
    fileOfSecret.set(secret, name)
  }
  return fileOfSecret
}

/** PEM texts for the TLS to each upstream. `cert` and `key` are both there or both not. */
export type TlsFiles = ReturnType<typeof readTlsFiles>

/** Undefined: no file is set. Webhooks use the files of payments: both go to the team's own services. */
export function readTlsFiles(values: SettingValues, readFile: ReadFile, note: Note) {
  const read = <Parsed>(name: SettingName, parse: (text: string) => Parsed) => {
    const path = values[name]
    return typeof path !== 'string'
      ? undefined
      : noting(note, name, () => {
          const text = readText(path, readFile)
          return { text, parsed: parse(text) }
        })
  }
  const filesOf = (prefix: 'SWAP' | 'PAYMENTS') => {
    const [certName, keyName] = [`${prefix}_CERT_FILE`, `${prefix}_KEY_FILE`] as const
    const ca = read(`${prefix}_CA_FILE`, readCertificates)
    const cert = read(certName, readCertificates)
    const key = read(keyName, readKey)
    const needed = (other: string) => `a PEM file, because ${other} is set: each needs the other`
    if (values[keyName] && !values[certName]) note(certName, needed(keyName))
    if (values[certName] && !values[keyName]) note(keyName, needed(certName))
    if (cert !== undefined && key !== undefined) {
      if (!cert.parsed[0].checkPrivateKey(key.parsed))
        note(keyName, `the private key of the certificate in ${certName}`)
      else if (!isAccepted(cert.text, key.text))
        note(certName, 'a certificate and key that OpenSSL accepts: these are too weak')
    }
    const isSet = ca !== undefined || cert !== undefined || key !== undefined
    return isSet ? { ca: ca?.text, cert: cert?.text, key: key?.text } : undefined
  }
  const [swap, payments] = [filesOf('SWAP'), filesOf('PAYMENTS')]
  return { swap, payments, webhooks: payments }
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
  throw new Wrong('a PEM file of whole certificates (-----BEGIN CERTIFICATE-----)')
}

function readKey(text: string): KeyObject {
  try {
    return createPrivateKey(text)
  } catch {
    const form = 'a PEM file of a private key (-----BEGIN PRIVATE KEY-----)'
    throw new Wrong(text.includes('ENCRYPTED') ? `${form} without a passphrase` : form)
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
