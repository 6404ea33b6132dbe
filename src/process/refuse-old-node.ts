import { nodeProblem } from './needed-node.mjs'
import { engines } from './package-info.ts'

// The build puts this first in the library, whose packages fail on an old Node with other errors.
const problem = nodeProblem(engines.node)
if (problem !== undefined) throw new Error(problem)
