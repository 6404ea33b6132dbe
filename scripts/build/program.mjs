import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { root } from './stale.mjs'

/** Node holds the maps of all that was loaded: those of the packages took 20 MB of the heap, and they are not needed for debugging. */
const packagesWithoutMaps = {
  name: 'packages-without-maps',
  setup({ onLoad }) {
    const map = Buffer.from(
      '{"version":3,"sources":["package"],"mappings":"AAAA"}',
    ).toString('base64')
    const comment = `\n//# sourceMappingURL=data:application/json;base64,${map}`
    onLoad({ filter: /[\\/]node_modules[\\/].*\.[cm]?js$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8') + comment,
    }))
  },
}

/** What the two kinds of bundle have in common. Nothing is shortened, and source maps lead back to `src/`. */
export const bundleOptions = {
  absWorkingDir: root,
  bundle: true,
  write: false,
  platform: 'node',
  target: 'node20.18',
  sourcemap: true,
  sourcesContent: false,
  logLevel: 'warning',
}

/** The outputs of a bundle by their paths in `folder`. */
export function filesOf({ outputFiles }, folder) {
  const start = join(root, folder).length + 1
  return outputFiles.map(({ path, contents }) => [
    path.slice(start).replaceAll('\\', '/'),
    contents,
  ])
}

/**
 * The program in one file with its packages, and a few more for what not every start needs, because to find and read 469
 * small files was half of a start; and the console. `plugins`: what changes its sources first.
 */
export async function program(folder, plugins = []) {
  const built = await build({
    ...bundleOptions,
    entryPoints: ['src/main.ts'],
    outdir: folder,
    splitting: true,
    format: 'esm',
    chunkNames: '[name]-[hash]',
    // Packages in the older form of modules ask for Node's own with require.
    banner: {
      js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url)",
    },
    plugins: [...plugins, packagesWithoutMaps],
  })
  const page = join(root, 'src/operations/console')
  return new Map([
    ...filesOf(built, folder),
    ...readdirSync(page).map((name) => [
      `operations/console/${name}`,
      readFileSync(join(page, name)),
    ]),
    [
      'operations/console/htm.js',
      readFileSync(join(root, 'node_modules/htm/preact/standalone.mjs')),
    ],
  ])
}
