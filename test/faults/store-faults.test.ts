import { describe, test } from 'vitest'
import { expectNoRequestToFail } from '../support/stores/faulty-store-stage.ts'
import { storeFaults } from '../support/stores/store-faults.ts'
import { valkeyIsInstalled } from '../support/stores/valkey.ts'

const faults = storeFaults.filter(({ fromTheStart }) => !fromTheStart)

describe.skipIf(!valkeyIsInstalled())('no request fails for a store that is', () => {
  test.each(faults.map((fault) => [fault.name, fault] as const))(
    '%s',
    (_name, fault) => expectNoRequestToFail(fault),
    90_000,
  )
})
