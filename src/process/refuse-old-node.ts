import { nodeProblem } from './needed-node.mjs'
import { engines } from './package-info.ts'

// The build puts this before all else in the library: its packages fail on an old Node with errors of their own.
const problem = nodeProblem(engines.node)
if (problem !== undefined) throw new Error(problem)
