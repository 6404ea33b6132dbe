import { hash } from 'node:crypto'
import { Agent, createServer, get } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { startProgram } from '../../test/support/gateways/program.ts'

export const clientsAtOnce = 16

const upstream = createServer(({ url = '' }, response) => {
  const value = new URL(url, 'http://upstream').searchParams.get('amount') ?? ''
  const fromAmount = { assetId: 'ETH', value }
  const toAmount = { assetId: 'USDC', value: (Number(value) * 289.6451234).toFixed(6) }
  const expiry = Date.now() + 3_600_000
  response.setHeader('Content-Type', 'application/json')
  response.end(JSON.stringify({ id: idOf(value), pairId: 'ETH_USDC', fromAmount, toAmount, expiry }))
})
await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
export const swapUrl = () => `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`

/** As long as the ids of the provider. */
export const idOf = (amount: string) => hash('sha256', amount)

async function freePort(): Promise<number> {
  const server = createTcpServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** How long the operations port took to answer at most, from its first answer until this is aborted. */
async function longestWait(port: number, signal: AbortSignal): Promise<number> {
  const isAnswered = () =>
    new Promise<boolean>((resolve) => {
      get({ port, path: '/healthz' }, (response) => response.on('end', () => resolve(true)).resume()).on(
        'error',
        () => resolve(false),
      )
    })
  while (!(await isAnswered()) && !signal.aborted) await pause(10)
  let longestMs = 0
  while (!signal.aborted) {
    await pause(10)
    const askedMs = performance.now()
    await isAnswered()
    longestMs = Math.max(longestMs, performance.now() - askedMs)
  }
  return longestMs
}

export async function startGateway(folder: string | undefined, settings: Record<string, string> = {}) {
  const port = await freePort()
  const beganMs = performance.now()
  const ports = {
    PORT: '0',
    ADMIN_PORT: `${port}`,
    DRAIN_DELAY_MS: '0',
    LOG_FORMAT: 'json',
    LOG_LEVEL: 'info',
  }
  const state = folder === undefined ? {} : { STATE_DIRECTORY: folder }
  const own = { ...ports, ...state, ...settings }
  const program = startProgram([], { SWAP_BASE_URL: swapUrl(), TRUST_PROXY: 'loopback', ...own })
  const listening = new AbortController()
  const waiting = longestWait(port, listening.signal)
  const [, url = ''] = await program.says(/"trafficUrl":"([^"]+)"/)
  const startMs = performance.now() - beganMs
  listening.abort()
  const longestWaitMs = await waiting
  const [, operationsUrl = ''] = await program.says(/"operationsUrl":"([^"]+)"/)
  const agent = new Agent({ keepAlive: true, maxSockets: clientsAtOnce })
  async function stop(signal: NodeJS.Signals) {
    program.child.kill(signal)
    await program.exit
    agent.destroy()
  }
  async function gauges() {
    const page = await (await fetch(`${operationsUrl}/metrics`)).text()
    const read = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1])
    return {
      cpuMs: 1_000 * read('process_cpu_seconds_total'),
      lagMs: 1_000 * read('nodejs_eventloop_lag_p99_seconds'),
      restored: read('quotegate_journal_restored_records'),
      residentMib: read('process_resident_memory_bytes') / 2 ** 20,
    }
  }
  const ask = (amount: number) =>
    new Promise<void>((resolve, reject) => {
      const headers = { 'App-Name': 'bench', Forwarded: `for=198.51.100.${(amount % 200) + 1}` }
      get(`${url}/v3/pairs/ETH_USDC/quotes?amount=${amount}`, { agent, headers }, (response) => {
        if (response.statusCode !== 200) reject(new Error(`a quote was answered with ${response.statusCode}`))
        response.on('end', resolve).on('error', reject).resume()
      }).on('error', reject)
    })
  return { startMs, longestWaitMs, stop, gauges, ask }
}
export type RunningGateway = Awaited<ReturnType<typeof startGateway>>

export function closeUpstream(): void {
  upstream.close()
  upstream.closeAllConnections()
}
