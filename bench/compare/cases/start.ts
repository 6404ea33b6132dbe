import { gatewayName } from '../../shared/contender.ts'
import { interleave } from '../rounds.ts'
import type { BenchCase } from './case.ts'

/** Time from the start of the process to its first answer. */
export const startToReady: BenchCase = async ({ stage, contenders, rounds, progress }) => {
  const variants = contenders.map((contender) => ({
    name: contender.name,
    async measure() {
      const { process: server } = await stage.place(contender)
      await server.stop()
      return { readyMs: server.readyMs }
    },
  }))
  const rows = await interleave(variants, rounds, progress)
  return [
    {
      id: 'start',
      title: 'start to the first answer',
      columns: [{ figure: 'readyMs', title: 'ms', digits: 0 }],
      rows,
      promises: [
        { what: 'start to ready, ms', figure: 'readyMs', of: gatewayName, bound: 400, is: 'at most' },
      ],
    },
  ]
}
