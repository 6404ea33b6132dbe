import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { IDeployment } from 'kubernetes-models/apps/v1/Deployment'
import type { IHorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler'
import type { INetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'
import type { IPodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import type { IContainer } from 'kubernetes-models/v1/Container'
import type { IProbe } from 'kubernetes-models/v1/Probe'
import type { ISecret } from 'kubernetes-models/v1/Secret'
import type { IService } from 'kubernetes-models/v1/Service'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { factsOf, isSettingName, settingNames } from '../../src/config/settings.ts'
import { version } from '../../src/process/package-info.ts'
import { imageEnv, readDockerfile } from '../support/deploy/dockerfile.ts'
import { folder, readEnvFile, readManifest, schemaErrors, typeErrors } from '../support/deploy/kubernetes.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'

interface Kustomization {
  resources: string[]
  configMapGenerator: { name: string; envs: string[] }[]
  labels: { pairs: Record<string, string>; includeTemplates?: boolean; includeSelectors?: boolean }[]
  images: { name: string; newTag: string }[]
  namespace: string
}

type Manifest = { apiVersion: string; kind: string; metadata: { name: string } }

const kustomization = readManifest<Kustomization>('kustomization.yaml')
const deployment = readManifest<IDeployment>('deployment.yaml')
const secret = readManifest<ISecret>('secret.example.yaml')
const pod = deployment.spec?.template
const container = pod?.spec?.containers[0] as IContainer
const settings = readEnvFile('settings.env')
const secrets = secret.stringData ?? {}

/** As a pod sees them. */
function config() {
  return loadConfig({ ...imageEnv(), ...settings, ...secrets }).config
}

const portNamed = (name: string | number | undefined) =>
  container.ports?.find((port) => port.name === name)?.containerPort

describe('kustomization.yaml', () => {
  it('lists every file there is, and none that is not', () => {
    const listed = [
      ...kustomization.resources,
      ...kustomization.configMapGenerator.flatMap(({ envs }) => envs),
    ]
    const others = [
      'README.md',
      'kustomization.yaml',
      'network-policy-egress.example.yaml',
      'secret.example.yaml',
    ]
    expect([...listed, ...others].sort()).toEqual(readdirSync(folder).sort())
  })

  it('names the image of the Deployment, and the version that this is', () => {
    const [image] = kustomization.images
    expect(image?.name).toBe(container.image)
    expect(image?.newTag).toBe(version)
    const tags = [...readFileSync(join(folder, 'README.md'), 'utf8').matchAll(/quotegate:(\d[\w.]*)/g)]
    expect(new Set(tags.map(([, tag]) => tag))).toEqual(new Set([version]))
  })

  it('is about objects as Kubernetes defines them, with no field that it does not know', () => {
    const files = [...kustomization.resources, 'secret.example.yaml', 'network-policy-egress.example.yaml']
    const objects = files.map((name) => readManifest<Manifest>(name))
    expect(typeErrors(objects)).toEqual([])
    expect(schemaErrors(objects)).toEqual([])
  }, 120_000)

  it('would be told of a value that cannot be, and of a field that is missing', () => {
    const wrong = { apiVersion: 'v1', kind: 'Service', spec: { ports: [{ port: 'http' }] } }
    expect(schemaErrors([wrong]).join()).toContain('/spec/ports/0/port must be integer')
    const empty = { apiVersion: 'apps/v1', kind: 'Deployment', spec: {} }
    expect(schemaErrors([empty]).join()).toContain('must have required property selector')
  })

  it('labels everything with the name and the version that this is', () => {
    const [labels] = kustomization.labels
    expect(labels?.pairs['app.kubernetes.io/name']).toBe('quotegate')
    expect(labels?.pairs['app.kubernetes.io/version']).toBe(version)
    expect([labels?.includeTemplates, labels?.includeSelectors]).toEqual([true, undefined])
  })

  it('would be told of a field that Kubernetes does not know', () => {
    const misspelt = { apiVersion: 'v1', kind: 'Service', spec: { selecter: {} } }
    expect(typeErrors([misspelt]).join()).toContain("'\"selecter\"' does not exist in type 'IServiceSpec'")
  }, 120_000)

  it('makes one namespace, that of the Secret too', () => {
    expect(readManifest<Manifest>('namespace.yaml').metadata.name).toBe(kustomization.namespace)
    expect(secret.metadata?.namespace).toBe(kustomization.namespace)
  })
})

describe('the settings', () => {
  it('all exist', () => {
    const names = [...Object.keys(settings), ...Object.keys(secrets)]
    expect(names.filter((name) => !isSettingName(name))).toEqual([])
  })

  it('are good together with those of the image', () => {
    expect(config).not.toThrow()
    expect(config().production).toBe(true)
  })

  it('are secret only in the Secret', () => {
    const secretNames: string[] = settingNames.filter((name) => factsOf(name).secret === 'whole')
    expect(Object.keys(settings).filter((name) => secretNames.includes(name))).toEqual([])
    expect(Object.values(settings).filter((value) => /:\/\/[^/]*@/.test(value))).toEqual([])
  })

  it('all reach the container, and only by these two', () => {
    expect(container.envFrom).toEqual([
      { configMapRef: { name: kustomization.configMapGenerator[0]?.name } },
      { secretRef: { name: secret.metadata?.name } },
    ])
    expect(container.env).toBeUndefined()
  })

  it('are not mixed with what Kubernetes says of Services', () => {
    expect(pod?.spec?.enableServiceLinks).toBe(false)
  })

  it('say whom to believe, and share what the replicas know', () => {
    expect(config().client.trustProxy).not.toEqual([])
    expect(secrets.VALKEY_URL).toBeDefined()
    // With several replicas, a quote that was served by another one may be unknown here while the store is down.
    expect(config().orders.unknownQuote).toBe('forward')
  })

  // The image's entrypoint says how much V8 may take: half of the container's limit.
  it('say nothing of Node, and fit the memory that the container has', () => {
    expect(settings.NODE_OPTIONS).toBeUndefined()
    const entrypoint = readDockerfile()
      .at(-1)
      ?.instructions.find(({ keyword }) => keyword === 'ENTRYPOINT')?.rest
    expect(entrypoint).toContain('"--max-old-space-size-percentage=50"')
    expect(container.resources?.limits?.memory).toBe('1Gi')
    const memory = { heapBytes: 2 ** 29, processBytes: 2 ** 30 }
    expect(loadConfig({ ...imageEnv(), ...settings, ...secrets }, { memory }).warnings).toEqual([])
  })
})

describe('the Deployment', () => {
  it('has the ports that the gateway listens on', () => {
    expect(portNamed('http')).toBe(config().traffic.port)
    expect(portNamed('operations')).toBe(config().admin.port)
    expect(config().admin.host).toBe('0.0.0.0')
  })

  it('gives a drain longer than it may take', () => {
    const { delayMs, timeoutMs } = config().drain
    const graceMs = (pod?.spec?.terminationGracePeriodSeconds ?? 0) * 1_000
    // Two more seconds are for the operations listener, which ends last.
    expect(graceMs).toBeGreaterThan(delayMs + timeoutMs + 2_000)
  })

  it('leaves a load balancer time to notice before a drain ends', () => {
    const { periodSeconds = 10, failureThreshold = 3, timeoutSeconds = 1 } = container.readinessProbe ?? {}
    expect(config().drain.delayMs).toBeGreaterThan(
      (periodSeconds * failureThreshold + timeoutSeconds) * 1_000,
    )
  })

  it('takes none away before its successor is ready', () => {
    expect(deployment.spec?.strategy?.rollingUpdate).toEqual({ maxUnavailable: 0, maxSurge: 1 })
  })

  it('keeps to the restricted profile, which its namespace demands', () => {
    const namespace = readManifest<{ metadata: { labels: object } }>('namespace.yaml')
    expect(namespace.metadata.labels).toEqual({ 'pod-security.kubernetes.io/enforce': 'restricted' })
    expect(pod?.spec?.securityContext).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    })
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    expect(pod?.spec?.automountServiceAccountToken).toBe(false)
  })

  it('runs as the user of the image', () => {
    const { runAsUser, runAsGroup } = pod?.spec?.securityContext ?? {}
    const user = readDockerfile()
      .at(-1)
      ?.instructions.find(({ keyword }) => keyword === 'USER')?.rest
    expect(`${runAsUser}:${runAsGroup}`).toBe(user)
  })

  it('tells Prometheus where the metrics are', () => {
    expect(pod?.metadata?.annotations).toEqual({
      'prometheus.io/scrape': 'true',
      'prometheus.io/port': String(portNamed('operations')),
      'prometheus.io/path': '/metrics',
    })
  })
})

describe('the probes', () => {
  let gateway: RunningGateway
  beforeAll(async () => {
    gateway = await startGateway()
  })
  afterAll(() => gateway.close())

  const probes = Object.entries({
    startup: container.startupProbe,
    readiness: container.readinessProbe,
    liveness: container.livenessProbe,
  })

  it.each(probes)('%s asks the operations port for something that it answers', async (_name, probe) => {
    expect(probe?.httpGet?.port).toBe('operations')
    expect((await fetch(`${gateway.operationsUrl}${probe?.httpGet?.path}`)).status).toBe(200)
  })

  it('readiness fails as soon as a drain begins, liveness does not', async () => {
    const statusOf = async (probe: IProbe | undefined) =>
      (await fetch(`${gateway.operationsUrl}${probe?.httpGet?.path}`)).status
    const closed = gateway.close({ delayMs: 60_000 })
    expect(await statusOf(container.readinessProbe)).toBe(503)
    expect(await statusOf(container.livenessProbe)).toBe(200)
    await gateway.close()
    await closed
  })
})

describe('what selects the pods', () => {
  const labels = pod?.metadata?.labels ?? {}

  it('all selects these, and is not broken by what kustomize adds', () => {
    const selectors = [
      deployment.spec?.selector.matchLabels,
      readManifest<IService>('service.yaml').spec?.selector,
      readManifest<IService>('service-operations.yaml').spec?.selector,
      readManifest<INetworkPolicy>('network-policy.yaml').spec?.podSelector?.matchLabels,
      readManifest<INetworkPolicy>('network-policy-egress.example.yaml').spec?.podSelector?.matchLabels,
      readManifest<IPodDisruptionBudget>('pod-disruption-budget.yaml').spec?.selector?.matchLabels,
      ...(pod?.spec?.topologySpreadConstraints ?? []).map(({ labelSelector }) => labelSelector?.matchLabels),
    ]
    expect(selectors).toHaveLength(8)
    for (const selector of selectors) expect(selector).toEqual(labels)
  })

  it.each(['service.yaml', 'service-operations.yaml'])('%s leads to a port of the container', (file) => {
    for (const { targetPort } of readManifest<IService>(file).spec?.ports ?? []) {
      expect(portNamed(targetPort), `${targetPort}`).toBeDefined()
    }
  })

  it('the traffic Service has no way to the operations port', () => {
    expect(readManifest<IService>('service.yaml').spec?.ports?.map(({ targetPort }) => targetPort)).toEqual([
      'http',
    ])
  })

  it('the NetworkPolicy lets clients to the traffic port and Prometheus to the other, and nobody to both', () => {
    const rules = readManifest<INetworkPolicy>('network-policy.yaml').spec?.ingress ?? []
    expect(rules.map(({ ports }) => ports?.map(({ port }) => port))).toEqual([['http'], ['operations']])
    for (const { from = [] } of rules) expect(from).not.toEqual([])
  })

  it('the autoscaler scales this Deployment, which does not say how many itself', () => {
    const scaler = readManifest<IHorizontalPodAutoscaler>('horizontal-pod-autoscaler.yaml').spec
    expect(scaler?.scaleTargetRef).toEqual({
      apiVersion: deployment.apiVersion,
      kind: deployment.kind,
      name: deployment.metadata?.name,
    })
    expect(deployment.spec?.replicas).toBeUndefined()
    expect(scaler?.minReplicas).toBeGreaterThan(1)
  })
})
