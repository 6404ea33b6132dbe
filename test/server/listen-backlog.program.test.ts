import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { maxListenBacklog } from '../../src/server/listen.ts'
import { get, RawConnection } from '../support/clients/raw-connection.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { startGatewayProcess } from '../support/gateways/gateway-process.ts'
import { keptLog } from '../support/observing/log-lines.ts'

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
  async function linesAtStart(settings: Record<string, string | number>) {
    const log = await keptLog('trace')
    const given = { SWAP_BASE_URL: 'http://127.0.0.1:9', ...settings }
    await using _gateway = await startGateway(given, { logger: log.logger })
    const lines = log.lines().filter(({ msg }) => msg.includes('somaxconn'))
    return lines.map(({ level, msg }) => `${level}: ${msg}`)
  }

  test('warns if the kernel cuts the backlog that CLIENT_CONNECTIONS asks for', async () => {
    expect(await linesAtStart({ CLIENT_CONNECTIONS: longest })).toEqual([])
    const cut = `warn: CLIENT_CONNECTIONS=${longest + 1} is more than net.core.somaxconn (${longest})`
    const lines = await linesAtStart({ CLIENT_CONNECTIONS: longest + 1 })
    expect(lines).toEqual([expect.stringContaining(cut)])
  })

  test.skipIf(longest >= 10_000)(
    'says nothing of it if only the default is cut, and in production no more than a debug line',
    async () => {
      expect(await linesAtStart({})).toEqual([])
      const cut = `debug: CLIENT_CONNECTIONS=10000 is more than net.core.somaxconn (${longest})`
      const lines = await linesAtStart({ NODE_ENV: 'production' })
      expect(lines).toEqual([expect.stringContaining(cut)])
    },
  )
})
