import { isHost } from './host-name.ts'

/** The proxy of UPSTREAM_PROXY. */
export interface ProxyAddress {
  /** An IPv6 address has no brackets. */
  readonly host: string
  readonly port: number
  /** The value of Proxy-Authorization, if the URL has credentials. */
  readonly authorization: string | undefined
}

const form = 'the http URL of a proxy, such as http://user:password@proxy.example.com:3128'

/** Reads an UPSTREAM_PROXY. `expected` repeats nothing of the text, because a password may be in it. */
export function readProxyUrl(text: string): ProxyAddress | { expected: string } {
  if (/^https:/i.test(text)) {
    return {
      expected: `${form}; TLS to the proxy itself is not supported, and what goes through it is encrypted anyway`,
    }
  }
  if (!/^http:\/\/[^/\s\\]/i.test(text) || /[\s\\]/.test(text) || !URL.canParse(text))
    return { expected: form }
  const { hostname, port, pathname, search, hash, username, password } = new URL(text)
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  if (!isHost(host.replace(/\.$/, '')) || port === '0') return { expected: form }
  if (pathname !== '/' || search !== '' || hash !== '') {
    return { expected: `${form}, without path, query and fragment; %2F, %3F and %23 in a password are / ? #` }
  }
  const address = { host, port: Number(port || 80) }
  if (username === '' && password === '') return { ...address, authorization: undefined }
  const authorization = basicAuthorization(username, password)
  return authorization === undefined
    ? { expected: `${form}, whose user has no colon, and whose user and password are percent-encoded UTF-8` }
    : { ...address, authorization }
}

/** RFC 7617 section 2: a user has no colon, and neither user nor password has a control character. */
function basicAuthorization(username: string, password: string): string | undefined {
  try {
    const user = decodeURIComponent(username)
    const credentials = `${user}:${decodeURIComponent(password)}`
    if (user.includes(':') || /[\u0000-\u001f\u007f]/.test(credentials)) return undefined
    return `Basic ${Buffer.from(credentials).toString('base64')}`
  } catch {
    return undefined
  }
}
