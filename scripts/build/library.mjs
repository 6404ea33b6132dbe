import { build } from 'esbuild'
import { bundleOptions, filesOf } from './program.mjs'

/** The entries of package.json, by the names that they have in dist/. */
export const entries = { index: 'src/index.ts', sandbox: 'src/sandbox/sandbox.ts' }

/** `quotegate` starts its built-in sandbox from the file of `quotegate/sandbox`, so that the code is there once. */
const sandboxInItsOwnFile = {
  name: 'sandbox-in-its-own-file',
  setup({ onResolve }) {
    onResolve({ filter: /\/sandbox\/sandbox\.ts$/ }, ({ kind }) =>
      kind === 'dynamic-import' ? { path: './sandbox.cjs', external: true } : undefined,
    )
  },
}

/**
 * The library once, as CommonJS, without its packages; `import` gets the same through a file of one line. So there is one
 * SettingsError, however the parts of a program load it.
 */
export async function library(folder) {
  const built = await build({
    ...bundleOptions,
    entryPoints: entries,
    outdir: folder,
    outExtension: { '.js': '.cjs' },
    format: 'cjs',
    packages: 'external',
    // Jest has no `import()` without a flag of Node.
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': 'moduleUrl' },
    banner: {
      js: "const moduleUrl = require('node:url').pathToFileURL(__filename).href",
    },
    inject: ['src/process/refuse-old-node.ts'],
    plugins: [sandboxInItsOwnFile],
  })
  const names = await namesOfEntries()
  const forImport = Object.keys(entries).map((entry) => [
    `${entry}.js`,
    `export { ${names[entry].join(', ')} } from './${entry}.cjs'\n`,
  ])
  return new Map([...filesOf(built, folder), ...forImport])
}

/** What each entry exports. esbuild says it of modules of the newer form alone. */
async function namesOfEntries() {
  const { metafile } = await build({
    ...bundleOptions,
    entryPoints: entries,
    outdir: 'dist',
    format: 'esm',
    packages: 'external',
    metafile: true,
    sourcemap: false,
  })
  const outputs = Object.values(metafile.outputs)
  return Object.fromEntries(
    Object.entries(entries).map(([name, path]) => [
      name,
      outputs.find(({ entryPoint }) => entryPoint === path).exports.sort(),
    ]),
  )
}
