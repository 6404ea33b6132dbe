import { hash } from 'node:crypto'

/** For what is kept by App-Name and bounded by number, not by bytes: a header may have thousands of them. */
export function briefName(name: string): string {
  return name.length <= 128 ? name : hash('sha256', name, 'base64url')
}
