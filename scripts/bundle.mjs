#!/usr/bin/env node
/**
 * Makes the program of dist/, dist/main.js, one file with its packages, and a few more for what not every start needs: to find
 * and read 469 small files was half of a start. The library, dist/index.js, stays as it is. With the name of a folder the program
 * goes there alone, with the console, and needs nothing else of dist/ or node_modules/; what cannot be bundled goes into
 * node_modules/ beside that folder.
 */
import { chmodSync, cpSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = process.argv[2] ?? 'dist'
/** Compiled code cannot be in a bundle. It is loaded only where STATE_DIRECTORY is set. */
const external = ['classic-level']

/** Node holds the maps of all that was loaded: those of the packages took 20 MB of the heap, and nobody debugs by them. */
const packagesWithoutMaps = {
  name: 'packages-without-maps',
  setup({ onLoad }) {
    const map = Buffer.from('{"version":3,"sources":["package"],"mappings":"AAAA"}').toString('base64')
    const comment = `\n//# sourceMappingURL=data:application/json;base64,${map}`
    onLoad({ filter: /\/node_modules\/.*\.[cm]?js$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8') + comment,
    }))
  },
}

await build({
  absWorkingDir: root,
  entryPoints: ['dist/main.js'],
  outdir: folder,
  allowOverwrite: true,
  bundle: true,
  splitting: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.18',
  chunkNames: '[name]-[hash]',
  // Packages in the older form of modules ask for Node's own with require.
  banner: {
    js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url)",
  },
  sourcemap: true,
  sourcesContent: false,
  logLevel: 'warning',
  external,
  plugins: [packagesWithoutMaps],
})
chmodSync(`${root}${folder}/main.js`, 0o755)
cpSync(`${root}src/operations/console`, `${root}${folder}/operations/console`, { recursive: true })
if (process.argv[2] !== undefined) copyPackages(external, join(root, dirname(folder), 'node_modules'))

/** With what they need in turn, and of compiled code only what is for this machine. */
function copyPackages(names, to, copied = new Set()) {
  for (const name of names) {
    if (copied.has(name)) continue
    copied.add(name)
    const from = join(root, 'node_modules', name)
    const platform = `${process.platform}-${process.arch}`
    cpSync(from, join(to, name), {
      recursive: true,
      filter: (path) =>
        !/\/(deps|binding\.cc|binding\.gyp)$/.test(path) &&
        (basename(dirname(path)) !== 'prebuilds' || basename(path) === platform),
    })
    const { dependencies = {} } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'))
    copyPackages(Object.keys(dependencies), to, copied)
  }
}
