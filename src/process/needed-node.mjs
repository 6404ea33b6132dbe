/**
 * Undefined if this Node is new enough. `engines`: from package.json, such as `>=20.18.1`. Plain JavaScript, because
 * `npm start` calls it before anything is built.
 */
export function nodeProblem(engines, version = process.versions.node) {
  const needed = engines.replace('>=', '')
  const [wanted, given] = [needed, version].map(numbersOf)
  const differs = wanted.findIndex((part, index) => part !== given[index])
  if (differs === -1 || given[differs] > wanted[differs]) return undefined
  return `quotegate needs Node ${needed} or later, and this is Node ${version}.`
}

/** Also reads versions such as 24.0.0-nightly. */
function numbersOf(version) {
  return version.split('.').map((part) => Number.parseInt(part, 10))
}
