import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import ts from 'typescript'
import { parse } from 'yaml'
import { repository } from './dockerfile.ts'

export const folder = join(repository, 'deploy/kubernetes')

export function readManifest<Kind>(name: string): Kind {
  return parse(readFileSync(join(folder, name), 'utf8'), { merge: true }) as Kind
}

/** NAME=value lines, as kustomize and docker read them. */
export function readEnvFile(name: string): Record<string, string> {
  const lines = readFileSync(join(folder, name), 'utf8').split('\n')
  const pairs = lines.filter((line) => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(
    pairs.map((pair) => [pair.replace(/=.*/, ''), pair.replace(/^[^=]*=/, '')]),
  )
}

export interface Kustomization {
  resources: string[]
  configMapGenerator: { name: string; envs: string[] }[]
  labels: {
    pairs: Record<string, string>
    includeTemplates?: boolean
    includeSelectors?: boolean
  }[]
  images: { name: string; newTag: string }[]
  namespace: string
}

interface KubernetesObject {
  apiVersion: string
  kind: string
}

const modelOf = ({ apiVersion, kind }: KubernetesObject) =>
  `kubernetes-models/${apiVersion}/${kind}`

/** What Kubernetes' own schemas say of objects: what is missing, and values that cannot be. They pass over unknown fields. */
export function schemaErrors(objects: readonly KubernetesObject[]): string[] {
  const require = createRequire(import.meta.url)
  return objects.flatMap((object) => {
    const { [object.kind]: Model } = require(modelOf(object)) as Record<
      string,
      new (
        data: object,
      ) => { validate(): void }
    >
    if (Model === undefined)
      return [`unknown kind ${object.kind} in ${object.apiVersion}`]
    try {
      new Model(object).validate()
      return []
    } catch (error) {
      return [`${object.kind}: ${(error as Error).message}`]
    }
  })
}

/** What the compiler says of objects taken as literals of Kubernetes' own types: unknown fields, wrong values. */
export function typeErrors(objects: readonly KubernetesObject[]): string[] {
  const source = objects
    .map(
      (object, index) =>
        `import type { I${object.kind} as Type${index} } from '${modelOf(object)}'\n` +
        `export const object${index}: Type${index} = ${JSON.stringify(object, null, 1)}\n`,
    )
    .join('')
  const path = join(repository, 'test/deploy/manifests-as-types.ts')
  const options: ts.CompilerOptions = {
    module: ts.ModuleKind.Node20,
    strict: true,
    noEmit: true,
    types: [],
    skipLibCheck: true,
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile, fileExists } = host
  host.fileExists = (name) => name === path || fileExists(name)
  host.getSourceFile = (name, ...others) =>
    name === path
      ? ts.createSourceFile(name, source, ts.ScriptTarget.ES2023)
      : getSourceFile.call(host, name, ...others)
  const program = ts.createProgram([path], options, host)
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '))
}
