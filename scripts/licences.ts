/** The licences of all packages in the bundle, which ask to be passed on with it: npm run licences [-- FILE] */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { productionPackages } from './production-packages.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

function licenceOf(path: string): string {
  const names = readdirSync(join(root, path)).filter((name) =>
    /^(licen[cs]e|notice|copying)\b/i.test(name),
  )
  return names
    .map((name) => readFileSync(join(root, path, name), 'utf8').trim())
    .join('\n\n')
}

const sections = productionPackages().map(({ name, path, version, license }) =>
  [`== ${name} ${version} (${license})`, licenceOf(path)].join('\n\n').trim(),
)
writeFileSync(
  process.argv[2] ?? 'third-party-licences.txt',
  `${sections.join('\n\n\n')}\n`,
)
