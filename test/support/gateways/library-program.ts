import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const index = fileURLToPath(new URL('../../../src/index.ts', import.meta.url))

/** Runs a program that has `createGateway`, to its end. */
export async function outcomeOf(
  program: string,
  flags: string[] = [],
): Promise<{ code: number; output: string }> {
  const source = `import { createGateway } from ${JSON.stringify(index)}\n${program}`
  const parameters = [...flags, '--import', 'tsx', '--input-type=module', '-e', source]
  const child = spawn(process.execPath, parameters, {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  const code = await new Promise<number>((resolve) => child.once('close', resolve))
  return { code, output }
}
