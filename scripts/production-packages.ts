import { readFileSync } from 'node:fs'

export interface ProductionPackage {
  name: string
  /** Below the repository. */
  path: string
  version: string
  license: string | undefined
  /** Named in our own package.json. */
  direct: boolean
}

const root = new URL('../', import.meta.url)
const read = (path: string) => JSON.parse(readFileSync(new URL(path, root), 'utf8'))

/** What `npm install quotegate` brings along, by the lock file. */
export function productionPackages(): ProductionPackage[] {
  const { dependencies, optionalDependencies } = read('package.json') as Record<
    string,
    object
  >
  const direct = { ...dependencies, ...optionalDependencies }
  const { packages } = read('package-lock.json') as {
    packages: Record<string, { version: string; license?: string; dev?: boolean }>
  }
  return (
    Object.entries(packages)
      // What npm marks devOptional is brought along by an optional package too, so it stays.
      .filter(([path, { dev }]) => path !== '' && !dev)
      .map(([path, { version, license }]) => {
        const name = path.replace(/^.*node_modules\//, '')
        return {
          name,
          path,
          version,
          license,
          direct: path === `node_modules/${name}` && name in direct,
        }
      })
  )
}

/** Licences that ask for no more than to be named. */
const permissive =
  /^(?:0BSD|Apache-2\.0|BlueOak-1\.0\.0|BSD-[23]-Clause|CC0-1\.0|ISC|MIT|MIT-0|Unlicense)$/

/** Of "A OR B" one will do; of anything more involved a person should judge. */
export function isPermissive(license: string | undefined): boolean {
  const choices = (license ?? '').replace(/^\((.*)\)$/, '$1').split(' OR ')
  return choices.some((one) => permissive.test(one))
}
