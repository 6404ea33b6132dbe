import type { IDeployment } from 'kubernetes-models/apps/v1/Deployment'
import type { IHorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler'
import type { INetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'
import type { IPodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import type { IContainer } from 'kubernetes-models/v1/Container'
import type { IProbe } from 'kubernetes-models/v1/Probe'
import type { ISecret } from 'kubernetes-models/v1/Secret'
import type { IService } from 'kubernetes-models/v1/Service'
import type { IServiceAccount } from 'kubernetes-models/v1/ServiceAccount'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { factsOf, isKnownName, settingNames } from '../../src/config/settings.ts'
import { imageEnv, readDockerfile } from '../support/deploy/dockerfile.ts'
import { type Kustomization, readEnvFile, readManifest } from '../support/deploy/kubernetes.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'

const kustomization = readManifest<Kustomization>('kustomization.yaml')
const deployment = readManifest<IDeployment>('deployment.yaml')
const secret = readManifest<ISecret>('secret.example.yaml')
const pod = deployment.spec?.template
const container = pod?.spec?.containers[0] as IContainer
const settings = readEnvFile('settings.env')
const secrets = secret.stringData ?? {}

/** Of the Prometheus operator, which has no schema here. */
interface PodMonitor {
  metadata: { namespace: string }
  spec: {
    selector: { matchLabels: object }
    jobLabel: string
    podMetricsEndpoints: { port: string; path: string }[]
  }
}

/** As a pod sees them. */
function config() {
  return loadConfig({ ...imageEnv(), ...settings, ...secrets }).config
}

const mebibytes = (quantity: unknown) => {
  const [, number = 'NaN', unit] = /^(\d+)([MG])i$/.exec(String(quantity)) ?? []
  return Number(number) * (unit === 'G' ? 1_024 : 1)
}

const portNamed = (name: string | number | undefined) =>
  container.ports?.find((port) => port.name === name)?.containerPort

describe('the settings', () => {
  it('all exist', () => {
    const names = [...Object.keys(settings), ...Object.keys(secrets)]
    expect(names.filter((name) => !isKnownName(name))).toEqual([])
  })

  it('are valid together with those of the image', () => {
    expect(config).not.toThrow()
    expect(config().production).toBe(true)
  })

  it('are secret only in the Secret', () => {
    const secretNames: string[] = settingNames.filter((name) => factsOf(name).secret === 'whole')
    expect(Object.keys(settings).filter((name) => secretNames.includes(name))).toEqual([])
    expect(Object.values(settings).filter((value) => /:\/\/[^/]*@/.test(value))).toEqual([])
  })

  it('all reach the container, and only from the ConfigMap and the Secret', () => {
    expect(container.envFrom).toEqual([
      { configMapRef: { name: kustomization.configMapGenerator[0]?.name } },
      { secretRef: { name: secret.metadata?.name } },
    ])
    expect(container.env).toBeUndefined()
  })

  it('are not mixed with the variables that Kubernetes sets for Services', () => {
    expect(pod?.spec?.enableServiceLinks).toBe(false)
  })

  it('name the trusted proxies and the shared store', () => {
    expect(config().client.trustProxy).not.toEqual([])
    expect(settings.CLIENT_IP_HEADER).toBe('x-forwarded-for')
    expect(secrets.VALKEY_URL).toBeDefined()
    // With several replicas, a quote that was served by another one may be unknown here while the store is down.
    expect(config().orders.unknownQuote).toBe('forward')
  })

  // The image's entrypoint says how much V8 may take: half of the container's limit.
  it("set no NODE_OPTIONS, and fit the container's memory", () => {
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

  it('allows more time to stop than a drain may take', () => {
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

  it('stops no pod before its successor is ready', () => {
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

  it('keeps the ledger in a folder of the pod, which has a bound', () => {
    expect(container.volumeMounts).toEqual([{ name: 'ledger', mountPath: settings.STATE_DIRECTORY }])
    expect(pod?.spec?.volumes).toEqual([{ name: 'ledger', emptyDir: { sizeLimit: '512Mi' } }])
  })

  it('asks for the storage that its ledger and its log may take, and has a limit above both', () => {
    const { requests, limits } = container.resources ?? {}
    // The kubelet keeps five files of 10 MiB of a container's log (containerLogMaxSize, containerLogMaxFiles).
    const neededMi = 512 + 50
    expect(mebibytes(requests?.['ephemeral-storage'])).toBeGreaterThanOrEqual(neededMi)
    expect(mebibytes(limits?.['ephemeral-storage'])).toBeGreaterThan(
      mebibytes(requests?.['ephemeral-storage']),
    )
  })

  it('has no two pods more on one host than on another, among those where a pod may run', () => {
    const spread = pod?.spec?.topologySpreadConstraints ?? []
    expect(spread.map(({ topologyKey, whenUnsatisfiable }) => [topologyKey, whenUnsatisfiable])).toEqual([
      ['kubernetes.io/hostname', 'DoNotSchedule'],
      ['topology.kubernetes.io/zone', 'ScheduleAnyway'],
    ])
    for (const constraint of spread)
      expect(constraint).toMatchObject({
        maxSkew: 1,
        matchLabelKeys: ['pod-template-hash'],
        nodeTaintsPolicy: 'Honor',
      })
  })

  it('has an account of its own, without a token', () => {
    const account = readManifest<IServiceAccount>('service-account.yaml')
    expect(account.automountServiceAccountToken).toBe(false)
    expect(pod?.spec?.serviceAccountName).toBe(account.metadata?.name)
    expect(account.metadata?.name).not.toBe('default')
  })

  it('counts a pod as available once it has stayed ready for longer than its probes need to see an end', () => {
    const { periodSeconds = 10, failureThreshold = 3, timeoutSeconds = 1 } = container.readinessProbe ?? {}
    const noticedAfterS = periodSeconds * failureThreshold + timeoutSeconds
    expect(deployment.spec?.minReadySeconds).toBeGreaterThan(noticedAfterS)
  })

  it('has the annotations that lead Prometheus to the metrics', () => {
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

  it.each(probes)('%s asks the operations port for a path that it serves', async (_name, probe) => {
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

  it('every selector selects these pods, also with the labels that kustomize adds', () => {
    const selectors = [
      deployment.spec?.selector.matchLabels,
      readManifest<IService>('service.yaml').spec?.selector,
      readManifest<IService>('service-operations.yaml').spec?.selector,
      readManifest<INetworkPolicy>('network-policy.yaml').spec?.podSelector?.matchLabels,
      readManifest<INetworkPolicy>('network-policy-egress.yaml').spec?.podSelector?.matchLabels,
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

  it('the traffic Service does not lead to the operations port', () => {
    expect(readManifest<IService>('service.yaml').spec?.ports?.map(({ targetPort }) => targetPort)).toEqual([
      'http',
    ])
  })

  it('the NetworkPolicy lets clients to the traffic port and Prometheus to the other, and no one to both', () => {
    const rules = readManifest<INetworkPolicy>('network-policy.yaml').spec?.ingress ?? []
    expect(rules.map(({ ports }) => ports?.map(({ port }) => port))).toEqual([['http'], ['operations']])
    for (const { from = [] } of rules) expect(from).not.toEqual([])
  })

  it('the egress NetworkPolicy denies all but names, the ports of the upstreams and of the store', () => {
    const policy = readManifest<INetworkPolicy>('network-policy-egress.yaml').spec
    expect(policy?.policyTypes).toEqual(['Egress'])
    const portOf = (url: string | undefined, usual: number) => Number(new URL(url ?? '').port || usual)
    const { SWAP_BASE_URL, PAYMENTS_BASE_URL } = settings
    const [dns, upstreams, store, ...others] = (policy?.egress ?? []).map(({ to, ports }) => {
      expect(to?.length).toBeGreaterThan(0)
      return ports?.map(({ port }) => port)
    })
    expect(others).toEqual([])
    expect(dns).toEqual([53, 53])
    expect(upstreams).toEqual([...new Set([portOf(SWAP_BASE_URL, 443), portOf(PAYMENTS_BASE_URL, 443)])])
    expect(store).toEqual([portOf(secrets.VALKEY_URL, 6_379)])
  })

  it('the upstreams are not among the addresses of private networks and of cloud metadata', () => {
    const [, upstreams] = readManifest<INetworkPolicy>('network-policy-egress.yaml').spec?.egress ?? []
    const [four] = (upstreams?.to ?? []).map(({ ipBlock }) => ipBlock)
    expect(four?.cidr).toBe('0.0.0.0/0')
    expect(four?.except).toEqual(expect.arrayContaining(['10.0.0.0/8', '169.254.0.0/16', '192.168.0.0/16']))
  })

  it('the PodMonitor asks these pods, at the path and port of the metrics, under the job that the rules expect', async () => {
    const monitor = readManifest<PodMonitor>('pod-monitor.yaml')
    expect(monitor).toMatchObject({ apiVersion: 'monitoring.coreos.com/v1', kind: 'PodMonitor' })
    expect(monitor.metadata.namespace).toBe(kustomization.namespace)
    expect(monitor.spec.selector.matchLabels).toEqual(labels)
    expect(labels[monitor.spec.jobLabel]).toBe('quotegate')
    const [endpoint] = monitor.spec.podMetricsEndpoints
    expect(portNamed(endpoint?.port)).toBe(config().admin.port)
    expect(endpoint?.path).toBe(pod?.metadata?.annotations?.['prometheus.io/path'])
  })

  it('the autoscaler goes up at once and down slowly, one pod at a time', () => {
    const { scaleUp, scaleDown } =
      readManifest<IHorizontalPodAutoscaler>('horizontal-pod-autoscaler.yaml').spec?.behavior ?? {}
    expect(scaleUp?.stabilizationWindowSeconds).toBe(0)
    expect(scaleDown?.stabilizationWindowSeconds).toBeGreaterThanOrEqual(300)
    expect(scaleDown?.policies?.map(({ type, value }) => [type, value])).toEqual([['Pods', 1]])
    // The one before has drained by then.
    const [{ periodSeconds } = { periodSeconds: 0 }] = scaleDown?.policies ?? []
    expect(periodSeconds).toBeGreaterThan(pod?.spec?.terminationGracePeriodSeconds ?? 0)
  })

  it('the autoscaler scales this Deployment, which sets no number of replicas', () => {
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
