import { describe, expect, test } from 'vitest'
import { reasonOf, repeatsRefusal } from '../../src/replicas/failure.ts'

describe('the log line of a store that is down', () => {
  // Redis 7 with `rename-command AUTH ""`; a Sentinel before 5.0.1; proxies that know no AUTH.
  test.each([
    "ERR unknown command 'auth', with args beginning with: 'me' 'hunter2' ",
    'ERR unknown command `auth`, with args beginning with: `hunter2`, ',
    "All sentinels are unreachable. Last error: ERR unknown command 'auth', with args beginning with: 'hunter2' ",
  ])('repeats no password that the store repeats: %s', (message) => {
    const reason = reasonOf(new Error(message))
    expect(reason).toContain('unknown command')
    expect(reason).not.toContain('hunter2')
  })

  test.each(['reply', 'error'])('does not repeat a %s that no call waits for', (kind) => {
    const said = `Command queue state error. If you can reproduce this, please report it. Last ${kind}: q-1\n203.0.113.7`
    expect(reasonOf(new Error(said))).toBe(
      'the store sent a reply that belongs to no command (Command queue state error)',
    )
  })
})

test('a refused password explains that the next command has none, and nothing else does', () => {
  const refused = new Error('WRONGPASS invalid username-password pair or user is disabled.')
  const none = new Error('NOAUTH Authentication required.')
  expect(repeatsRefusal(none, refused)).toBe(true)
  expect(repeatsRefusal(none, new Error('connect ECONNREFUSED 127.0.0.1:6379'))).toBe(false)
  expect(repeatsRefusal(none, undefined)).toBe(false)
  expect(repeatsRefusal(refused, none)).toBe(false)
})
