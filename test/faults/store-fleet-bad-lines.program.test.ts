import { describe } from 'vitest'
import { testFaults } from '../support/gateways/fleet-stage.ts'
import { badLines } from '../support/stores/fleet-faults.ts'

describe('a fleet whose store is hard to reach', { tags: ['redis-server'] }, () =>
  testFaults(badLines),
)
