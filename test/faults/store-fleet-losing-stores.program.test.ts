import { describe } from 'vitest'
import { testFaults } from '../support/gateways/fleet-stage.ts'
import { losingStores } from '../support/stores/fleet-faults.ts'

describe('a fleet whose store loses', { tags: ['redis-server'] }, () =>
  testFaults(losingStores),
)
