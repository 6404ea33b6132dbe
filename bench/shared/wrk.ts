import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { amountScript, requestScript } from './backend-requests.ts'

export interface Load {
  port: number
  target: string
  method?: string
  headers?: Record<string, string>
  body?: string
  /** A Lua expression, whose value replaces the `*` of the target or of a header. */
  amount?: string
  connections: number
  seconds: number
}

export interface LoadResult {
  requests: number
  requestsPerSecond: number
  p50Ms: number
  p99Ms: number
}

const run = promisify(execFile)
const scripts = mkdtempSync(join(tmpdir(), 'quotegate-bench-'))
process.on('exit', () => rmSync(scripts, { recursive: true, force: true }))
/** Each has a script of its own, because several may run at once. */
let loads = 0

/** One thread of wrk, which is faster than any server on one core. Any error makes the measurement void. */
export async function wrk(load: Load): Promise<LoadResult> {
  const script = join(scripts, `${loads++}.lua`)
  writeFileSync(script, luaOf(load))
  const url = `http://127.0.0.1:${load.port}${load.target}`
  const flags = [
    '-t1',
    `-c${load.connections}`,
    `-d${load.seconds}s`,
    '--timeout',
    '10s',
    '-s',
    script,
    url,
  ]
  const { stdout } = await run('wrk', flags, { maxBuffer: 1 << 20 })
  const line = stdout.split('\n').find((text) => text.startsWith('{'))
  if (line === undefined) throw new Error(`wrk printed no result: ${stdout}`)
  const said = JSON.parse(line) as {
    requests: number
    micros: number
    errors: number
    p50: number
    p99: number
  }
  if (said.errors > 0 || said.requests === 0) {
    throw new Error(
      `${said.errors} errors among ${said.requests} requests to ${load.target}`,
    )
  }
  return {
    requests: said.requests,
    requestsPerSecond: (said.requests / said.micros) * 1e6,
    p50Ms: said.p50 / 1_000,
    p99Ms: said.p99 / 1_000,
  }
}

function luaOf({ method = 'GET', headers = {}, body, amount }: Load): string {
  const lines = [`wrk.method = ${lua(method)}`]
  for (const [name, value] of Object.entries(headers))
    lines.push(`wrk.headers[${lua(name)}] = ${lua(value)}`)
  if (body !== undefined) lines.push(`wrk.body = ${lua(body)}`)
  return `${lines.join('\n')}
${amount === undefined ? requestScript(body?.length ?? 0) : amountScript(amount)}
function done(summary, latency)
  local e = summary.errors
  io.write(string.format('{"requests":%d,"micros":%d,"errors":%d,"p50":%d,"p99":%d}\\n', summary.requests,
    summary.duration, e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99)))
end
`
}

function lua(text: string): string {
  return `"${text.replace(/["\\\n]/g, '\\$&')}"`
}
