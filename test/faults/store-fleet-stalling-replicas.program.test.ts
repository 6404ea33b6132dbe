import { describe } from 'vitest'
import { testFaults } from '../support/gateways/fleet-stage.ts'
import { stallingReplicas } from '../support/stores/fleet-faults.ts'

describe('a fleet whose store is well', { tags: ['redis-server'] }, () =>
  testFaults(stallingReplicas),
)
