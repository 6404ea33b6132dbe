import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { entries } from './library.mjs'
import { root } from './stale.mjs'

/** The declarations of the library for `require`, and for each entry one for `import` that points to it. */
export async function declarations(folder) {
  const emitted = mkdtempSync(join(tmpdir(), 'quotegate-declarations-'))
  process.once('exit', () => rmSync(emitted, { recursive: true, force: true }))
  await compile(emitted)
  const files = new Map()
  for (const path of Object.values(entries)) {
    const name = path.replace(/^src\//, '').replace(/\.ts$/, '')
    addDeclaration(name, { emitted, folder, files })
    files.set(`${folder}/${name}.d.ts`, `export * from './${posix.basename(name)}.cjs'\n`)
  }
  return files
}

async function compile(outDir) {
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  // Types are checked by `npm run typecheck`; checked here too, each build took twice as long.
  const flags = ['-p', 'tsconfig.build.json', '--noCheck', '--outDir', outDir]
  const child = spawn(process.execPath, [compiler, ...flags], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  })
  const [code] = await once(child, 'close')
  if (code !== 0) process.exit(code ?? 1)
}

/** One and what it refers to, in turn: an eighth of all that the compiler writes. */
function addDeclaration(name, { emitted, folder, files }) {
  const to = `${folder}/${name}.d.cts`
  if (files.has(to)) return
  const text = readFileSync(join(emitted, `${name}.d.ts`), 'utf8')
  const reference = /((?:from |import\()['"])(\.[^'"]+)\.ts(?=['"])/g
  files.set(to, text.replace(reference, '$1$2.cjs'))
  for (const [, , path] of text.matchAll(reference)) {
    addDeclaration(posix.join(posix.dirname(name), path), { emitted, folder, files })
  }
}
