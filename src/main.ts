#!/usr/bin/env node
import { checkHealth, healthUrl } from './process/check-health.ts'
import { nodeProblem } from './process/needed-node.mjs'
import { engines } from './process/package-info.ts'

// biome-ignore lint/style/noProcessEnv: the environment is read here and nowhere else.
const environment = process.env
const [flag, ...others] = process.argv.slice(2)

// A health check runs every few seconds beside a gateway that may have little memory and half a core: it loads nothing
// else.
if (flag === '--check-health' && others.length <= 1) {
  const problem = await checkHealth(others[0] ?? healthUrl(environment))
  if (problem !== undefined) process.stderr.write(`${problem}\n`)
  process.exit(problem === undefined ? 0 : 1)
} else {
  // An old Node cannot even parse the program, so it is imported after this.
  const problem = nodeProblem(engines.node)
  if (problem !== undefined) {
    process.stderr.write(`${problem}\n`)
    process.exit(1)
  }
  const { runProgram } = await import('./program.ts')
  await runProgram(environment)
}
