import { spawnSync } from 'node:child_process'

export function promtool(
  args: readonly string[],
  input = '',
): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync('promtool', args, {
    input,
    encoding: 'utf8',
  })
  return { status, output: stdout + stderr }
}
