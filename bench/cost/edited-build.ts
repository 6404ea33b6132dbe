import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Plugin } from 'esbuild'
import { placeFiles } from '../../scripts/build/place.mjs'
import { program } from '../../scripts/build/program.mjs'
import { root } from '../../scripts/build/stale.mjs'
import type { Edit } from './ablations.ts'

/** Builds the program with these edits, in a folder of its own. Returns the path of its main file. */
export async function buildWith(name: string, edits: readonly Edit[]): Promise<string> {
  const folder = join('node_modules', '.cache', 'ablations', name.replace(/\W+/g, '-'))
  const dist = join(folder, 'dist')
  const files = await program(dist, [editing(edits)])
  placeFiles(join(root, dist), files, { last: 'main.js' })
  // What the program reads of the folder above its own.
  for (const file of ['package.json', 'docs/openapi.json'])
    cpSync(join(root, file), join(root, folder, file))
  return join(root, dist, 'main.js')
}

/** Throws where an edit no longer applies. */
export function editing(edits: readonly Edit[]): Plugin {
  const texts = new Map<string, string>()
  for (const edit of edits) {
    const path = join(root, edit[0])
    texts.set(path, edited(texts.get(path) ?? readFileSync(path, 'utf8'), edit))
  }
  return {
    name: 'edits',
    setup({ onLoad }) {
      onLoad({ filter: /\.[jt]s$/ }, ({ path }) => {
        const contents = texts.get(path)
        if (contents === undefined) return undefined
        return { contents, loader: path.endsWith('.ts') ? 'ts' : 'js' }
      })
    },
  }
}

/** Throws where the edit no longer applies. */
function edited(text: string, [file, from, to]: Edit): string {
  const parts = text.split(from)
  if (parts.length === 2) return parts.join(to)
  const times = parts.length - 1
  throw new Error(
    `an edit of ${file} no longer applies: this is there ${times} times: ${from}`,
  )
}
