import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { freePort } from '../machine/free-port.ts'
import { until } from './between.ts'

/** The lines of docs/operations.md for these ports. */
function documentedLines(port: number, backendPorts: readonly number[]): string {
  const page = readFileSync(
    new URL('../../../docs/operations.md', import.meta.url),
    'utf8',
  )
  const [, lines = ''] = /```nginx\n(.*?)```/s.exec(page) ?? []
  const left = [...backendPorts]
  return lines
    .replace('listen 80;', `listen 127.0.0.1:${port};`)
    .replace(/server 10\.0\.0\.\d+:8080/g, () => `server 127.0.0.1:${left.shift()}`)
}

/** nginx, as it is documented, in front of two fixed ports, and without health checks. */
export async function startNginx(backendPorts: readonly number[]) {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-nginx-'))
  const port = await freePort()
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${join(folder, name)};`,
  )
  mkdirSync(join(folder, 'logs'))
  const errorLog = join(folder, 'logs', 'error.log')
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off;
master_process off;
pid ${join(folder, 'pid')};
error_log ${errorLog} info;
events { worker_connections 512; }
http {
  access_log off;
  ${temporary.join('\n  ')}
  ${documentedLines(port, backendPorts)}
}
`,
  )
  const child: ChildProcess = spawn(
    'nginx',
    ['-p', folder, '-c', join(folder, 'nginx.conf')],
    {
      stdio: 'ignore',
    },
  )
  onTestFinished(async () => {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  let answers = false
  void (async () => {
    while (!answers) answers = (await fetch(url).catch(() => undefined)) !== undefined
  })()
  await until(() => answers || child.exitCode !== null, 'nginx to listen')
  return {
    url,
    /** What it could not get an answer to, and why: one line of its error log each. */
    errors: () =>
      readFileSync(errorLog, 'utf8')
        .split('\n')
        .filter((line) => line.includes(', upstream: ')),
  }
}
