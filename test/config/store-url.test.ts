import { expect, test } from 'vitest'
import { readStoreUrl } from '../../src/config/urls.ts'

const nothing = {
  username: undefined,
  password: undefined,
  database: 0,
  masterName: undefined,
  sentinelPassword: undefined,
}

test.each([
  ['redis://localhost', { kind: 'single', nodes: [{ host: 'localhost', port: 6379 }], tls: false }],
  ['valkey://localhost:1', { kind: 'single', nodes: [{ host: 'localhost', port: 1 }], tls: false }],
  ['valkeys://[::1]:1', { kind: 'single', nodes: [{ host: '::1', port: 1 }], tls: true }],
  [
    'rediss://me:p%40ss%3A%2F@store.example:6380/3',
    {
      kind: 'single',
      nodes: [{ host: 'store.example', port: 6380 }],
      tls: true,
      username: 'me',
      password: 'p@ss:/',
      database: 3,
    },
  ],
  [
    'redis+sentinel://:secret@a:1,b,c:3/the%20master/2?sentinelPassword=other',
    {
      kind: 'sentinel',
      nodes: [
        { host: 'a', port: 1 },
        { host: 'b', port: 26379 },
        { host: 'c', port: 3 },
      ],
      tls: false,
      password: 'secret',
      masterName: 'the master',
      database: 2,
      sentinelPassword: 'other',
    },
  ],
  [
    'rediss+cluster://a,b:7001',
    {
      kind: 'cluster',
      nodes: [
        { host: 'a', port: 6379 },
        { host: 'b', port: 7001 },
      ],
      tls: true,
    },
  ],
])('%s is parsed', (url, address) => {
  expect(readStoreUrl(url)).toEqual({ ...nothing, ...address })
})

test.each([
  ['redis://secret@host', /colon before the password/],
  ['redis://a,b', /several hosts need \+sentinel or \+cluster/],
  ['redis+sentinel://a,b', /name of the master/],
  ['redis+cluster://a,b/1', /a Cluster has no database but 0/],
  ['redis://a:70000', /a port is a number from 1 to 65535/],
  ['redis+cluster://a,b:0', /a port is a number from 1 to 65535/],
  ['redis://999.1.1.1', /each host is a name or an address/],
  ['redis://[::1', /each host is a name or an address/],
  ['redis://a?timeout=1', /only sentinelPassword/],
  ['redis://:100%@a', /a % that is not part of an escape/],
])('%s is refused, and the reason says what is expected', (url, reason) => {
  expect(() => readStoreUrl(url)).toThrow(reason)
})
