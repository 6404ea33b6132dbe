import { describe } from 'vitest'
import { testFaults } from '../support/gateways/fleet-stage.ts'
import { silentStores } from '../support/stores/fleet-faults.ts'

describe('a fleet whose store is silent', { tags: ['redis-server'] }, () =>
  testFaults(silentStores),
)
