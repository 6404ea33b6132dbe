import { hash } from 'node:crypto'

const maxLength = 256

/** A text in places that are bounded by number, not by bytes: a name in a request may have thousands of bytes. */
export function briefText(text: string): string {
  return text.length <= maxLength ? text : hash('sha256', text, 'base64url')
}
