import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { IDeployment } from 'kubernetes-models/apps/v1/Deployment'
import type { IConfigMap } from 'kubernetes-models/v1/ConfigMap'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { prometheusRule } from '../../scripts/alerts.ts'
import { dashboardConfigMap } from '../../scripts/dashboard/dashboard.ts'
import { version } from '../../src/process/package-info.ts'
import {
  folder,
  type Kustomization,
  readManifest,
  schemaErrors,
  typeErrors,
} from '../support/deploy/kubernetes.ts'
import { readGrafana } from '../support/observing/grafana.ts'

type Manifest = {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace?: string }
}

const kustomization = readManifest<Kustomization>('kustomization.yaml')

it('kustomization.yaml lists every file that exists, and no other', () => {
  const { resources, configMapGenerator } = kustomization
  const listed = [...resources, ...configMapGenerator.flatMap(({ envs }) => envs)]
  const ofMonitoring = [
    'grafana-dashboard.yaml',
    'pod-monitor.yaml',
    'prometheus-rule.yaml',
  ]
  const others = [
    'README.md',
    'kustomization.yaml',
    'secret.example.yaml',
    ...ofMonitoring,
  ]
  expect([...listed, ...others].sort()).toEqual(readdirSync(folder).sort())
})

it('has the image of the Deployment, and the current version there, in the labels and in the README', () => {
  const [image] = kustomization.images
  const { spec } = readManifest<IDeployment>('deployment.yaml')
  expect(image).toMatchObject({
    name: spec?.template.spec?.containers[0]?.image,
    newTag: version,
  })
  const tags = [
    ...readFileSync(join(folder, 'README.md'), 'utf8').matchAll(/quotegate:(\d[\w.]*)/g),
  ]
  expect(new Set(tags.map(([, tag]) => tag))).toEqual(new Set([version]))
  const [labels] = kustomization.labels
  const pairs = {
    'app.kubernetes.io/name': 'quotegate',
    'app.kubernetes.io/version': version,
  }
  expect(labels).toMatchObject({ pairs, includeTemplates: true })
  expect(labels?.includeSelectors).toBeUndefined()
})

it('has only objects and fields that Kubernetes defines', () => {
  const files = [
    ...kustomization.resources,
    'grafana-dashboard.yaml',
    'secret.example.yaml',
  ]
  const objects = files.map((name) => readManifest<Manifest>(name))
  expect(typeErrors(objects)).toEqual([])
  expect(schemaErrors(objects)).toEqual([])
}, 120_000)

it('has one namespace, that of the Secret, the rules and the dashboard too', () => {
  expect(readManifest<Manifest>('namespace.yaml').metadata.name).toBe(
    kustomization.namespace,
  )
  for (const name of [
    'secret.example.yaml',
    'prometheus-rule.yaml',
    'grafana-dashboard.yaml',
  ])
    expect(readManifest<Manifest>(name).metadata.namespace).toBe(kustomization.namespace)
})

it('the ConfigMap of the dashboard is what npm run docs writes, has its very bytes, and is found by its label', () => {
  const written = readFileSync(join(folder, 'grafana-dashboard.yaml'), 'utf8')
  const json = readGrafana('dashboards/quotegate.json')
  expect(written).toBe(dashboardConfigMap(json))
  const { kind, data, metadata } = readManifest<IConfigMap>('grafana-dashboard.yaml')
  expect(kind).toBe('ConfigMap')
  expect(data).toEqual({ 'quotegate.json': json })
  expect(metadata?.labels).toMatchObject({ grafana_dashboard: '1' })
})

it('the PrometheusRule is what npm run docs writes, and has the very rules of grafana/alerts.yml', () => {
  const written = readFileSync(join(folder, 'prometheus-rule.yaml'), 'utf8')
  expect(written).toBe(prometheusRule(readGrafana('alerts.yml')))
  expect(readManifest<{ spec: unknown }>('prometheus-rule.yaml').spec).toEqual(
    parse(readGrafana('alerts.yml')),
  )
})
