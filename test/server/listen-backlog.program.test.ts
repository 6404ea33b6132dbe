import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { maxListenBacklog } from '../../src/server/listen.ts'
import { until } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { startGatewayProcess } from '../support/gateways/gateway-process.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const longest = maxListenBacklog() ?? 0
/** More than the 511 that Node asks for. */
const clients = 700

describe.skipIf(longest < clients)('the listen backlog', () => {
  test('takes as many clients as CLIENT_CONNECTIONS while the process is busy', async () => {
    const { url, child } = await startGatewayProcess({ CLIENT_CONNECTIONS: String(clients) })
    child.kill('SIGSTOP')
    let connected = 0
    const sockets = Array.from({ length: clients }, () => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1', () => {
        connected += 1
      })
      return socket.on('error', () => {})
    })
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    // What the kernel drops tries again after a second, after three, and so on, and would be dropped again.
    await until(() => connected === clients, `all clients to be connected`)
    child.kill('SIGCONT')
    sockets[clients - 1]?.write('GET /v3/pairs HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n')
    const [answer] = (await once(sockets[clients - 1] ?? process, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 200 /)
  })
})

describe.skipIf(longest === 0)('a start', () => {
  async function warningsAtStart(connections: number): Promise<string[]> {
    const log = await keptLog('trace')
    await using _gateway = await startGateway({ CLIENT_CONNECTIONS: connections }, { logger: log.logger })
    const warnings = log.lines().filter(({ level }) => level === levels.warn)
    return warnings.map(({ msg }) => msg).filter((msg) => !msg.includes('file descriptors'))
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
