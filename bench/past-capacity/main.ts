import { type Load, playPastCapacity } from '../../test/support/clients/past-capacity.ts'

/**
 * Twice as many requests as an upstream can take: how many are answered in each 10 s, and how many orders are sent and
 * then cut, so that their outcome is unknown?
 */
const seconds = Number(process.argv[2] ?? 60)
const totalTimeoutMs = Number(process.argv[3] ?? 15_000)
const connections = Number(process.argv[4] ?? 4)
const callMs = 2_000
const slotMs = 10_000

/** One of the connections, of up to 15, is for float orders alone. */
const capacityOf = (load: Load) =>
  (load.includes('float orders') ? connections : connections - 1) / (callMs / 1_000)

const slots = Array.from({ length: Math.ceil((seconds * 1_000) / slotMs) }, (_none, index) => index)
process.stdout.write(
  `${connections} connections, calls of ${callMs} ms, UPSTREAM_TOTAL_TIMEOUT_MS=${totalTimeoutMs}, ${seconds} s at ` +
    `${connections} requests a second\n\n` +
    `| requests | capacity a second | ${slots.map((slot) => `${slot * 10} s`).join(' | ')} | refused unsent | sent and cut | orders among them |\n` +
    `|---|---|${'---|'.repeat(slots.length + 3)}\n`,
)
const loads = ['quotes', 'float orders', 'quotes and float orders', 'orders'] satisfies Load[]
const rows = await Promise.all(
  loads.map(async (load) => {
    const { ended } = await playPastCapacity({
      load,
      connections,
      callMs,
      totalTimeoutMs,
      requestsPerSecond: connections,
      requests: seconds * connections,
    })
    const goodput = slots.map((slot) => {
      const good = ended.filter(
        ({ status, afterMs }) => status < 300 && Math.floor(afterMs / slotMs) === slot,
      )
      return (good.length / (slotMs / 1_000)).toFixed(2)
    })
    const refused = ended.filter(({ status }) => status === 503).length
    const cut = ended.filter(({ status }) => status === 504)
    const cells = [
      load,
      capacityOf(load),
      ...goodput,
      refused,
      cut.length,
      cut.filter(({ isOrder }) => isOrder).length,
    ]
    return `| ${cells.join(' | ')} |\n`
  }),
)
process.stdout.write(rows.join(''))
