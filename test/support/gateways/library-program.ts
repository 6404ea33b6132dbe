import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { watchProgram } from './program.ts'

const index = fileURLToPath(new URL('../../../src/index.ts', import.meta.url))

/** Runs a program that has `createGateway`, to its end. */
export async function outcomeOf(
  program: string,
  flags: string[] = [],
): Promise<{ code: number | null; output: string }> {
  const source = `import { createGateway } from ${JSON.stringify(index)}\n${program}`
  const parameters = [...flags, '--import', 'tsx', '--input-type=module', '-e', source]
  const child = spawn(process.execPath, parameters, {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
  })
  const { code, stdout, stderr } = await watchProgram(child).exit
  return { code, output: stdout + stderr }
}
