import {
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'

/**
 * Makes `folder` hold these files (contents by path, with `/` in it) and nothing else. Each is written beside its place and
 * renamed, so that a program that starts meanwhile reads the old file or the new one, never a part. `last` goes after those
 * that it loads.
 */
export function placeFiles(folder, files, { last, startedAt = new Date() }) {
  const order = [...files.keys()].sort((a, b) => Number(a === last) - Number(b === last))
  const asideOf = (name) => join(folder, `${name}.${process.pid}.part`)
  for (const name of order) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(asideOf(name), files.get(name), { mode: name === last ? 0o755 : 0o644 })
    if (name === last) utimesSync(asideOf(name), startedAt, startedAt)
  }
  for (const name of order) renameSync(asideOf(name), join(folder, name))
  removeOthers(folder, folder, files)
}

function removeOthers(folder, within, files) {
  for (const entry of readdirSync(within, { withFileTypes: true })) {
    const path = join(within, entry.name)
    if (entry.isDirectory()) removeOthers(folder, path, files)
    else if (
      !files.has(relative(folder, path).replaceAll(sep, '/')) &&
      !isOfRunningBuild(entry.name)
    )
      rmSync(path, { force: true })
  }
  if (readdirSync(within).length === 0) rmdirSync(within)
}

/** `npm start` and `npm test` may build at the same time. What a build leaves that was killed is removed by the next one. */
function isOfRunningBuild(name) {
  const [, pid] = /\.(\d+)\.part$/.exec(name) ?? []
  try {
    return pid !== undefined && process.kill(Number(pid), 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}
