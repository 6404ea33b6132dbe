import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { prometheusRule } from '../../scripts/alerts.ts'
import { folder, type Kustomization, readManifest } from '../support/deploy/kubernetes.ts'
import { readGrafana } from '../support/observing/grafana.ts'

interface PrometheusRule {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace: string }
  spec: unknown
}

it('the PrometheusRule is what npm run docs writes', () => {
  const written = readFileSync(join(folder, 'prometheus-rule.yaml'), 'utf8')
  expect(written).toBe(prometheusRule(readGrafana('alerts.yml')))
})

it('the PrometheusRule has the very rules of grafana/alerts.yml, in the namespace of the rest', () => {
  const rule = readManifest<PrometheusRule>('prometheus-rule.yaml')
  expect(rule).toMatchObject({ apiVersion: 'monitoring.coreos.com/v1', kind: 'PrometheusRule' })
  expect(rule.metadata.namespace).toBe(readManifest<Kustomization>('kustomization.yaml').namespace)
  expect(rule.spec).toEqual(parse(readGrafana('alerts.yml')))
})
