import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { parseAllDocuments } from 'yaml'
import { readEnvFile, schemaErrors } from '../../test/support/deploy/kubernetes.ts'
import type { Check } from './checks.ts'

const folder = '/repository/deploy/kubernetes'
const run = (file: string, ...parameters: string[]) => execFileSync(file, parameters, { encoding: 'utf8' })

interface Rendered {
  apiVersion: string
  kind: string
  metadata: { labels?: Record<string, string> }
  data?: Record<string, string>
}

const objectsOf = (text: string) => parseAllDocuments(text).map((document) => document.toJS() as Rendered)

/** What Debian's kustomize and kubectl make of deploy/kubernetes. No cluster is asked. */
export async function checkManifests(check: Check): Promise<void> {
  let objects: Rendered[] = []
  await check('kustomize build renders the manifests, and kubectl kustomize the same', () => {
    objects = objectsOf(run('kustomize', 'build', folder))
    assert.deepEqual(objectsOf(run('kubectl', 'kustomize', folder)), objects)
    assert.deepEqual(schemaErrors(objects), [])
    const kinds = objects.map(({ kind }) => kind).sort()
    process.stdout.write(`    ${kinds.join(', ')}\n`)
    assert.ok(kinds.includes('Deployment') && kinds.includes('NetworkPolicy'))
  })
  await check('each of them has the labels of name and version', () => {
    for (const { kind, metadata } of objects) {
      assert.equal(metadata.labels?.['app.kubernetes.io/name'], 'quotegate', kind)
      assert.match(metadata.labels?.['app.kubernetes.io/version'] ?? '', /^\d+\.\d+\.\d+/, kind)
    }
  })
  await check('kubectl reads settings.env as the tests do', () => {
    const made = ['create', 'configmap', 'quotegate', `--from-env-file=${folder}/settings.env`]
    const { data } = JSON.parse(run('kubectl', ...made, '--dry-run=client', '--output=json')) as Rendered
    assert.deepEqual(data, readEnvFile('settings.env'))
    assert.deepEqual(objects.find(({ kind }) => kind === 'ConfigMap')?.data, data)
  })
}
