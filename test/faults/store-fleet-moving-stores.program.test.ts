import { describe } from 'vitest'
import { testFaults } from '../support/gateways/fleet-stage.ts'
import { movingStores } from '../support/stores/fleet-faults.ts'

describe('a fleet whose store moves', { tags: ['redis-server'] }, () =>
  testFaults(movingStores),
)
