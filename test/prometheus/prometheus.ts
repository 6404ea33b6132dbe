import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse, stringify } from 'yaml'
import { freePort } from '../support/machine/free-port.ts'
import { readGrafana } from '../support/observing/grafana.ts'

export interface Sample {
  labels: Readonly<Record<string, string>>
  value: number
}

export interface Prometheus {
  /** As of then. */
  query(expr: string, atMs: number): Promise<Sample[]>
  rules(): Promise<{ name: string; health: string; lastError?: string }[]>
  targets(): Promise<{ health: string; lastError: string; scrapeUrl: string }[]>
  close(): Promise<void>
}

interface ApiResult {
  metric: Record<string, string>
  /** Seconds since the epoch, and the value. */
  value: [number, string]
}

/** The real one, with our own prometheus.yml and rules, in a hurry: it scrapes and evaluates every second. */
export async function startPrometheus(target: string): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-prometheus-'))
  const config = join(folder, 'prometheus.yml')
  writeFileSync(config, configFor(target))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const child = spawn('prometheus', [
    `--config.file=${config}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--log.level=error',
  ])
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text
  })
  const exit = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const close = async () => {
    child.kill('SIGKILL')
    await exit
    rmSync(folder, { recursive: true, force: true })
  }

  async function api<Data>(path: string, parameters: Record<string, string> = {}): Promise<Data> {
    const answer = await fetch(`${url}/api/v1/${path}?${new URLSearchParams(parameters)}`)
    const { data, error } = (await answer.json()) as { data: Data; error?: string }
    if (error !== undefined) throw new Error(`${error}, for ${JSON.stringify(parameters)}`)
    return data
  }

  const deadline = performance.now() + 20_000
  while (!(await isReady(url))) {
    if (child.exitCode === null && performance.now() < deadline) continue
    await close()
    throw new Error(`prometheus did not start: ${complaints}`)
  }
  return {
    async query(expr, atMs) {
      const time = String(atMs / 1_000)
      const { result } = await api<{ result: ApiResult[] }>('query', { query: expr, time })
      return result.map(toSample)
    },
    async rules() {
      const { groups } = await api<{ groups: { rules: { name: string; health: string }[] }[] }>('rules')
      return groups.flatMap((group) => group.rules)
    },
    async targets() {
      const data = await api<{ activeTargets: { health: string; lastError: string; scrapeUrl: string }[] }>(
        'targets',
      )
      return data.activeTargets
    },
    close,
  }
}

function configFor(target: string): string {
  const config = parse(readGrafana('prometheus.yml')) as {
    global: object
    rule_files: string[]
    scrape_configs: { static_configs: { targets: string[] }[] }[]
  }
  const [job, ...otherJobs] = config.scrape_configs
  if (job === undefined || otherJobs.length > 0) throw new Error('prometheus.yml is expected to have one job')
  return stringify({
    ...config,
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: config.rule_files.map((file) =>
      fileURLToPath(new URL(`../../grafana/${file}`, import.meta.url)),
    ),
    scrape_configs: [{ ...job, static_configs: [{ targets: [target] }] }],
  })
}

function toSample({ metric, value: [, text] }: ApiResult): Sample {
  return { labels: metric, value: Number(text) }
}

async function isReady(url: string): Promise<boolean> {
  await new Promise((resolve) => setTimeout(resolve, 100))
  return fetch(`${url}/-/ready`).then(
    ({ status }) => status === 200,
    () => false,
  )
}
