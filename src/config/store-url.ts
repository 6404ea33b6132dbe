import type { StoreAddress, StoreNode } from '../http/store-address.ts'

const forms =
  'redis://[[user]:password@]host[:port][/database], rediss:// for TLS, ' +
  'redis+sentinel://host:port,host:port/master-name or redis+cluster://host:port,host:port'

const shape =
  /^(?:redis|valkey)(s)?(?:\+(sentinel|cluster))?:\/\/(?:([^/?#]*)@)?([^/?#@]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/i

const defaultPorts = { single: 6_379, sentinel: 26_379, cluster: 6_379 }

/**
 * Parses a VALKEY_URL; not with `URL`, which refuses several hosts. `expected` repeats nothing of the text, because a
 * password may be in it.
 */
export function readStoreUrl(text: string): StoreAddress | { expected: string } {
  const found = shape.exec(text)
  if (found === null || /[\s\\]/.test(text)) return { expected: forms }
  const [, tls, variant, userInfo, hosts = '', path = '', query] = found
  const kind = (variant?.toLowerCase() ?? 'single') as StoreAddress['kind']
  try {
    const { username, password } = readUserInfo(userInfo)
    return {
      kind,
      nodes: readNodes(hosts, kind),
      tls: tls !== undefined,
      username,
      password,
      ...readPath(path, kind),
      sentinelPassword: readSentinelPassword(query, kind),
    }
  } catch (error) {
    if (error instanceof Unreadable || error instanceof URIError) return { expected: forms + because(error) }
    throw error
  }
}

class Unreadable extends Error {}

function because(error: Error): string {
  return ` (${error instanceof Unreadable ? error.message : 'a % that is not part of an escape'})`
}

function readUserInfo(userInfo: string | undefined) {
  if (userInfo === undefined) return { username: undefined, password: undefined }
  const colon = userInfo.indexOf(':')
  // redis://secret@host would make the password a user name.
  if (colon === -1) throw new Unreadable('a colon before the password, also without a user')
  const [username, password] = [userInfo.slice(0, colon), userInfo.slice(colon + 1)].map(decodeURIComponent)
  return { username: username || undefined, password: password || undefined }
}

function readNodes(hosts: string, kind: StoreAddress['kind']): StoreNode[] {
  const nodes = hosts.split(',').map((node) => {
    const found = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/i.exec(node)
    const port = Number(found?.[3] ?? defaultPorts[kind])
    if (found === null || port < 1 || port > 65_535) throw new Unreadable('each host is a name or an address')
    return { host: found[1] ?? found[2] ?? '', port }
  })
  if (kind === 'single' && nodes.length > 1) {
    throw new Unreadable('several hosts need +sentinel or +cluster')
  }
  return nodes
}

function readPath(path: string, kind: StoreAddress['kind']) {
  const parts = path.split('/').filter((part) => part !== '')
  const masterName = kind === 'sentinel' ? decodeURIComponent(parts.shift() ?? '') : undefined
  if (masterName === '') throw new Unreadable('the name of the master follows the Sentinels')
  const [database = '0', ...rest] = parts
  if (!/^\d{1,4}$/.test(database) || rest.length > 0) throw new Unreadable('the database is a number')
  if (kind === 'cluster' && database !== '0') throw new Unreadable('a Cluster has no database but 0')
  return { masterName, database: Number(database) }
}

function readSentinelPassword(query: string | undefined, kind: StoreAddress['kind']): string | undefined {
  if (query === undefined) return undefined
  const found = /^sentinelPassword=(.+)$/.exec(query)
  if (kind !== 'sentinel' || found === null) {
    throw new Unreadable('only sentinelPassword of +sentinel may follow the ?')
  }
  return decodeURIComponent(found[1] ?? '')
}
