import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { Wrong } from './problems.ts'

// Each reader returns what is in a file, or throws Wrong. A file may hold a key, so nothing of it is repeated.

/** Many times the size of a system's certificate authorities. */
const maxBytes = 4 * 2 ** 20

/** Startup must not hang on a pipe without a writer or on an endless device. */
export function readText(path: string): string {
  try {
    const file = statSync(path)
    if (!file.isFile() && !file.isDirectory())
      throw new Error('it is a pipe or a device, not a file')
    if (file.size > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`)
    // A byte order mark is dropped.
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path))
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
      throw new Wrong('a file of UTF-8 text')
    throw new Wrong(`a file that quotegate can read (${code ?? message})`)
  }
}

/** Reads every certificate of a PEM file: Node reads text that it cannot parse as no authorities. */
export function readCertificates(path: string) {
  const text = readText(path)
  const [, ...begun] = text.split('-----BEGIN CERTIFICATE-----')
  try {
    const [first] = begun.map(
      (rest) => new X509Certificate(`-----BEGIN CERTIFICATE-----${rest}`),
    )
    if (first !== undefined) return { text, first }
  } catch {
    // Reported below.
  }
  throw new Wrong('a PEM file of whole certificates (-----BEGIN CERTIFICATE-----)')
}

export function readKey(path: string) {
  const text = readText(path)
  try {
    return { text, key: createPrivateKey(text) }
  } catch {
    const form = 'a PEM file of a private key (-----BEGIN PRIVATE KEY-----)'
    throw new Wrong(text.includes('ENCRYPTED') ? `${form} without a passphrase` : form)
  }
}

/** OpenSSL refuses weak pairs, such as RSA with 512 bits. */
export function isAccepted(cert: string, key: string): boolean {
  try {
    createSecureContext({ cert, key })
    return true
  } catch {
    return false
  }
}
