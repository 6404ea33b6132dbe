import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { IDeployment } from 'kubernetes-models/apps/v1/Deployment'
import type { ISecret } from 'kubernetes-models/v1/Secret'
import { describe, expect, it } from 'vitest'
import { version } from '../../src/process/package-info.ts'
import {
  folder,
  type Kustomization,
  readManifest,
  schemaErrors,
  typeErrors,
} from '../support/deploy/kubernetes.ts'

type Manifest = { apiVersion: string; kind: string; metadata: { name: string } }

const kustomization = readManifest<Kustomization>('kustomization.yaml')
const deployment = readManifest<IDeployment>('deployment.yaml')
const secret = readManifest<ISecret>('secret.example.yaml')
const container = deployment.spec?.template.spec?.containers[0]

describe('kustomization.yaml', () => {
  it('lists every file that exists, and no other', () => {
    const listed = [
      ...kustomization.resources,
      ...kustomization.configMapGenerator.flatMap(({ envs }) => envs),
    ]
    const ofTheOperator = ['pod-monitor.yaml', 'prometheus-rule.yaml']
    const others = ['README.md', 'kustomization.yaml', 'secret.example.yaml', ...ofTheOperator]
    expect([...listed, ...others].sort()).toEqual(readdirSync(folder).sort())
  })

  it('names the image of the Deployment and the current version', () => {
    const [image] = kustomization.images
    expect(image?.name).toBe(container?.image)
    expect(image?.newTag).toBe(version)
    const tags = [...readFileSync(join(folder, 'README.md'), 'utf8').matchAll(/quotegate:(\d[\w.]*)/g)]
    expect(new Set(tags.map(([, tag]) => tag))).toEqual(new Set([version]))
  })

  it('has only objects and fields that Kubernetes defines', () => {
    const files = [...kustomization.resources, 'secret.example.yaml']
    const objects = files.map((name) => readManifest<Manifest>(name))
    expect(typeErrors(objects)).toEqual([])
    expect(schemaErrors(objects)).toEqual([])
  }, 120_000)

  it('labels everything with the name and the current version', () => {
    const [labels] = kustomization.labels
    expect(labels?.pairs['app.kubernetes.io/name']).toBe('quotegate')
    expect(labels?.pairs['app.kubernetes.io/version']).toBe(version)
    expect([labels?.includeTemplates, labels?.includeSelectors]).toEqual([true, undefined])
  })

  it('makes one namespace, that of the Secret too', () => {
    expect(readManifest<Manifest>('namespace.yaml').metadata.name).toBe(kustomization.namespace)
    expect(secret.metadata?.namespace).toBe(kustomization.namespace)
  })
})
