import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** What a build reads. A folder counts too: its time tells that a file in it was removed. */
const sources = [
  'src',
  'scripts/build',
  'scripts/build.mjs',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
]

/**
 * Whether dist/ is missing, or older than a source. dist/main.js has the time at which its build began. If that time is
 * still to come, the clock was set back, and no later edit would look newer.
 */
export function isStale(repository = root) {
  const builtAtMs = statSync(join(repository, 'dist/main.js'), {
    throwIfNoEntry: false,
  })?.mtimeMs
  if (builtAtMs === undefined || builtAtMs > Date.now()) return true
  return sources.some((name) => isNewer(join(repository, name), builtAtMs))
}

function isNewer(path, timeMs) {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined) return false
  if (stats.mtimeMs > timeMs) return true
  return (
    stats.isDirectory() &&
    readdirSync(path).some((name) => isNewer(join(path, name), timeMs))
  )
}
