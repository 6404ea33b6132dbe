import { expect, it } from 'vitest'
import { environment } from '../support/machine/environment.ts'
import { guardAtLedger } from './guard-at-ledger.ts'
import { playAll } from './guard-exhaustive.ts'
import { agrees } from './guard-histories.ts'

// Four in `npm run check:long`.
const steps = Number(environment().GUARD_STEPS ?? 3)
const patienceMs = 3_600_000

it(
  'the guard and its model say the same of every order after every short history',
  async () => {
    const seen = new Map<string, number>()
    await playAll(
      steps,
      () => guardAtLedger({ entries: 100 }),
      (said, expected, of) => {
        if (!agrees(said, expected)) expect({ ...of(), said }).toEqual({ ...of(), said: expected })
        const what = `${said.state} ${said.rule}`
        seen.set(what, (seen.get(what) ?? 0) + 1)
      },
    )
    const both = ['id', 'exact', 'none'].map((rule) => `expired ${rule}`)
    const unknown = ['id', 'none', 'unreadable', 'store-away'].map((rule) => `unknown ${rule}`)
    const all = [...both, ...unknown, 'live id', 'live exact', 'live pays', 'live any', 'expired fallen']
    expect([...seen.keys()].sort()).toEqual(all.sort())
  },
  patienceMs,
)
