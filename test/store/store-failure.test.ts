import { describe, expect, test } from 'vitest'
import { reasonOf } from '../../src/store/store-failure.ts'

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
})
