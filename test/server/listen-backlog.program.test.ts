import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { maxListenBacklog } from '../../src/server/listen.ts'
import { get, RawConnection } from '../support/clients/raw-connection.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { startGatewayProcess } from '../support/gateways/gateway-process.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const longest = maxListenBacklog() ?? 0
/** More than the 511 that Node asks for. */
const clients = 700

describe.skipIf(longest < clients)('the listen backlog', () => {
  test('takes as many clients as CLIENT_CONNECTIONS while the process is busy', async () => {
    const { url, child } = await startGatewayProcess({
      CLIENT_CONNECTIONS: String(clients),
    })
    child.kill('SIGSTOP')
    const all = Array.from({ length: clients }, () => new RawConnection(url))
    // What the kernel drops tries again after a second, after three, and so on, and would be dropped again.
    await Promise.all(all.map(({ socket }) => once(socket, 'connect')))
    child.kill('SIGCONT')
    all.at(-1)?.write(get('/v3/pairs'))
    expect((await all.at(-1)?.answer())?.status).toBe(200)
  })
})

describe.skipIf(longest === 0)('a start', () => {
  async function warningsAtStart(connections: number): Promise<string[]> {
    const log = await keptLog('trace')
    await using _gateway = await startGateway(
      { CLIENT_CONNECTIONS: connections },
      { logger: log.logger },
    )
    const warnings = log.lines().filter(({ level }) => level === levels.warn)
    return warnings
      .map(({ msg }) => msg)
      .filter((msg) => !/file descriptors|SWAP_BASE_URL/.test(msg))
  }

  test('warns if the kernel cuts the backlog that CLIENT_CONNECTIONS asks for', async () => {
    expect(await warningsAtStart(longest)).toEqual([])
    const [warning, ...more] = await warningsAtStart(longest + 1)
    expect(more).toEqual([])
    expect(warning).toContain(
      `CLIENT_CONNECTIONS=${longest + 1} is more than net.core.somaxconn (${longest})`,
    )
  })
})
