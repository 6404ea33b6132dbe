/** Finds words that readers stumble over (scripts/words/list.ts), each with its file and line: npm run lint calls it. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { hitsIn } from './words/hits.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
// The list itself names them, and so does its test.
const lists = ['scripts/words/list.ts', 'test/scripts/words.test.ts']

const listed = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--deduplicate']
const files = execFileSync('git', listed, { cwd: root, encoding: 'utf8' }).split('\0')
const hits = files
  .filter((path) => path !== '' && !lists.includes(path))
  .flatMap((path) => hitsIn(path, readFileSync(`${root}/${path}`, 'utf8')))

for (const { path, line, found, write } of hits) {
  process.stdout.write(`${path}:${line}: "${found}": write ${write}\n`)
}
process.stdout.write(`Words: ${hits.length} found in ${files.length - 1} files.\n`)
process.exitCode = hits.length === 0 ? 0 : 1
