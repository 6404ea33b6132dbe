import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'

/** `asserts`: LevelDB ended the process. `killed`: a signal from outside did, which says nothing of the store. */
export type Trial = 'opens' | 'fails' | 'asserts' | 'killed'

/** Compacting reads every table in the way that LevelDB's assertions are about. */
const script = `
  const [, module, folder, repairs] = process.argv
  const { ClassicLevel } = require(module)
  // The process that waits for this has ended. The next start needs the folder.
  process.stdin.resume().on('close', () => process.kill(process.pid, 'SIGKILL'))
  async function run() {
    if (repairs === 'true') await ClassicLevel.repair(folder).catch(() => {})
    const level = new ClassicLevel(folder)
    await level.open()
    await level.compactRange('', '\\uffff')
    await level.close()
  }
  run().then(() => process.exit(0), () => process.exit(1))
`

/**
 * Opens a copy of a store in a process of its own. LevelDB asserts that keys are in order when it repairs or compacts a
 * table, so a damaged table can end the process. A note left in the folder could not tell such an end from a kill. The
 * assertion's text in the standard error can: no supervisor writes it.
 */
export function tryLevel(folder: string, { repairs }: { repairs: boolean }): Promise<Trial> {
  const module = createRequire(import.meta.url).resolve('classic-level')
  const parameters = ['--input-type=commonjs', '-e', script, module, folder, String(repairs)]
  // NODE_OPTIONS may load or print anything.
  const child = spawn(process.execPath, parameters, { stdio: ['pipe', 'ignore', 'pipe'], env: {} })
  let said = ''
  child.stderr.setEncoding('latin1').on('data', (text: string) => {
    said += text
  })
  return new Promise((resolve) => {
    child.once('error', () => resolve('fails'))
    child.once('close', (code, signal) => {
      if (code === 0) resolve('opens')
      else if (/assertion .*failed|assertion failed/i.test(said)) resolve('asserts')
      else resolve(signal === null ? 'fails' : 'killed')
    })
  })
}
