import { describe, test } from 'vitest'
import { expectNoRequestToFail } from '../support/stores/faulty-store-stage.ts'
import { storeFaults } from '../support/stores/store-faults.ts'

const faults = storeFaults.filter(({ fromTheStart }) => !fromTheStart)

describe('no request fails for a store that is', { tags: ['redis-server'] }, () => {
  test.each(faults.map((fault) => [fault.name, fault] as const))(
    '%s',
    (_name, fault) => expectNoRequestToFail(fault),
    90_000,
  )
})
