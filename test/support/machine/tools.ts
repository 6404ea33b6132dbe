import { spawnSync } from 'node:child_process'

/** Whether a program of Debian's `prometheus` package is here; says so loudly when it is not. */
export function isInstalled(program: 'prometheus' | 'promtool'): boolean {
  const installed = spawnSync(program, ['--version']).status === 0
  if (!installed) {
    process.stderr.write(`\nSKIPPED: ${program} is missing here. apt-get install -y prometheus\n\n`)
  }
  return installed
}

export function promtool(args: readonly string[], input = ''): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' })
  return { status, output: stdout + stderr }
}
