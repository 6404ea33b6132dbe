import { headerLines, quoteProbe } from '../../shared/backend-requests.ts'
import { gatewayName } from '../../shared/contender.ts'
import { askOnce, RawConnection, requestText } from '../../shared/raw-client.ts'
import { type Figures, type Placed, stopAll } from '../../shared/stage.ts'
import { type BenchCase, interleave } from './case.ts'

const callers = 64
/** How long the upstream takes for these quotes. */
const upstreamMs = 50
let pairs = 0

/**
 * 64 callers ask at once for one quote that is not cached: how many calls reach the upstream, and how much longer than
 * the upstream itself the slowest caller waits. The slowest of 64 hits shows how much of that the callers cause.
 */
export const coldKey: BenchCase = async ({
  stage,
  contenders,
  quick,
  rounds,
  progress,
}) => {
  const placed = await stage.placeAll(
    contenders.filter(({ skills }) => skills.includes('fetch')),
  )
  const variants = await Promise.all(
    placed.map(async (one) => {
      const connections = await Promise.all(
        Array.from({ length: callers }, () => RawConnection.open(one.port)),
      )
      return {
        name: one.contender.name,
        connections,
        measure: () => measure(one, connections, stage.upstreamPort),
      }
    }),
  )
  for (const { measure: warmUp } of variants)
    for (let times = 0; times < 3; times += 1) await warmUp()
  const rows = await interleave(variants, quick ? 5 : rounds * 4, progress)
  for (const { connections } of variants)
    for (const connection of connections) connection.close()
  await stopAll(placed)
  const promise = { figure: 'upstreamCalls', of: gatewayName, is: 'at most' } as const
  return [
    {
      title: `${callers} callers on a cold key, upstream ${upstreamMs} ms`,
      columns: [
        { figure: 'upstreamCalls', title: 'upstream calls', digits: 0 },
        { figure: 'slowestMs', title: 'slowest ms', digits: 1 },
        { figure: 'beyondMs', title: 'beyond the upstream, ms', digits: 1 },
        { figure: 'hitSlowestMs', title: 'slowest of 64 hits, ms', digits: 1 },
      ],
      rows,
      promises: [
        { ...promise, what: 'cold key, upstream calls', bound: 1 },
        {
          ...promise,
          what: 'cold key, slowest of 64 beyond the upstream, ms',
          figure: 'beyondMs',
          bound: 10,
        },
      ],
    },
  ]
}

async function measure(
  { contender, port }: Placed,
  connections: readonly RawConnection[],
  upstreamPort: number,
): Promise<Figures> {
  pairs += 1
  const request = requestText({
    target: `/v3/pairs/SLOW${pairs}/quotes?amount=0.1`,
    headers: headerLines(),
  })
  const hit = requestText(quoteProbe)
  const callsBefore = await callsOf(upstreamPort)
  const slowestMs = await slowest(contender.name, connections, request)
  const upstreamCalls = (await callsOf(upstreamPort)) - callsBefore
  await askOnce(port, quoteProbe)
  const hitSlowestMs = await slowest(contender.name, connections, hit)
  return { upstreamCalls, slowestMs, beyondMs: slowestMs - upstreamMs, hitSlowestMs }
}

async function slowest(
  name: string,
  connections: readonly RawConnection[],
  request: string,
): Promise<number> {
  const beganMs = performance.now()
  const waits = connections.map(async (connection) => {
    const { status } = await connection.ask(request)
    if (status !== 200) throw new Error(`${name} answered ${status} to one of ${callers}`)
    return performance.now() - beganMs
  })
  return Math.max(...(await Promise.all(waits)))
}

async function callsOf(upstreamPort: number): Promise<number> {
  const { body } = await askOnce(upstreamPort, { target: '/calls' })
  return (JSON.parse(body.toString()) as { slowCalls: number }).slowCalls
}
