import type { IDeployment } from 'kubernetes-models/apps/v1/Deployment'
import type { IHorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler'
import type { INetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'
import type { IPodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import type { IContainer } from 'kubernetes-models/v1/Container'
import type { IProbe } from 'kubernetes-models/v1/Probe'
import type { ISecret } from 'kubernetes-models/v1/Secret'
import type { IService } from 'kubernetes-models/v1/Service'
import type { IServiceAccount } from 'kubernetes-models/v1/ServiceAccount'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { factsOf, isKnownName, settingNames } from '../../src/config/settings.ts'
import { imageEnv, instructionOf } from '../support/deploy/dockerfile.ts'
import {
  type Kustomization,
  readEnvFile,
  readManifest,
} from '../support/deploy/kubernetes.ts'
import { gatewayWith } from '../support/gateways/between.ts'

const kustomization = readManifest<Kustomization>('kustomization.yaml')
const deployment = readManifest<IDeployment>('deployment.yaml')
const secret = readManifest<ISecret>('secret.example.yaml')
const pod = deployment.spec?.template
const container = pod?.spec?.containers[0] as IContainer
const settings = readEnvFile('settings.env')
const secrets = secret.stringData ?? {}

/** As a pod sees them, half of whose memory V8 may take. */
const memory = { heapBytes: 2 ** 29, processBytes: 2 ** 30 }
const load = () => loadConfig({ ...imageEnv(), ...settings, ...secrets }, { memory })
const config = () => load().config

const portNamed = (name: string | number | undefined) =>
  container.ports?.find((port) => port.name === name)?.containerPort

describe('the settings', () => {
  it('exist, and are valid in production together with those of the image', () => {
    const names = [...Object.keys(settings), ...Object.keys(secrets)]
    expect(names.filter((name) => !isKnownName(name))).toEqual([])
    expect(load().warnings).toEqual([])
    expect(config().production).toBe(true)
  })

  it('are secret only in the Secret', () => {
    const secretNames: string[] = settingNames.filter(
      (name) => factsOf(name).secret === 'whole',
    )
    expect(Object.keys(settings).filter((name) => secretNames.includes(name))).toEqual([])
    expect(Object.values(settings).filter((value) => /:\/\/[^/]*@/.test(value))).toEqual(
      [],
    )
  })

  it('all reach the container, from the ConfigMap and the Secret, and not from Services', () => {
    expect(container.envFrom).toEqual([
      { configMapRef: { name: kustomization.configMapGenerator[0]?.name } },
      { secretRef: { name: secret.metadata?.name } },
    ])
    expect([container.env, pod?.spec?.enableServiceLinks]).toEqual([undefined, false])
  })

  it('name the trusted proxies and the shared store', () => {
    expect(config().client).toEqual({
      trustProxy: [expect.any(String)],
      ipHeader: 'x-forwarded-for',
    })
    expect(secrets.VALKEY_URL).toBeDefined()
    // With several replicas, a quote that was served by another one may be unknown here while the store is down.
    expect(config().orders.unknownQuote).toBe('forward')
  })

  it("leave the memory to the image's entrypoint", () => {
    expect(settings.NODE_OPTIONS).toBeUndefined()
    expect(instructionOf('ENTRYPOINT')).toContain('"--max-old-space-size-percentage=50"')
    expect(container.resources?.limits?.memory).toBe('1Gi')
  })
})

describe('the Deployment', () => {
  it('has the ports that the gateway listens on', () => {
    const { traffic, admin } = config()
    expect([portNamed('http'), portNamed('operations')]).toEqual([
      traffic.port,
      admin.port,
    ])
    expect(admin.host).toBe('0.0.0.0')
  })

  it('loses no request as it rolls: each pod is replaced before it ends, and the load balancer notices in time', () => {
    expect(deployment.spec?.strategy?.rollingUpdate).toEqual({
      maxUnavailable: 0,
      maxSurge: 1,
    })
    const { delayMs, timeoutMs } = config().drain
    const graceMs = (pod?.spec?.terminationGracePeriodSeconds ?? 0) * 1_000
    // Two more seconds are for the operations listener, which ends last.
    expect(graceMs).toBeGreaterThan(delayMs + timeoutMs + 2_000)
    const {
      periodSeconds = 10,
      failureThreshold = 3,
      timeoutSeconds = 1,
    } = container.readinessProbe ?? {}
    const noticedAfterS = periodSeconds * failureThreshold + timeoutSeconds
    expect(delayMs).toBeGreaterThan(noticedAfterS * 1_000)
    expect(deployment.spec?.minReadySeconds).toBeGreaterThan(noticedAfterS)
  })

  it('keeps to the restricted profile, which its namespace demands, as the user of the image', () => {
    const namespace = readManifest<{ metadata: { labels: object } }>('namespace.yaml')
    expect(namespace.metadata.labels).toEqual({
      'pod-security.kubernetes.io/enforce': 'restricted',
    })
    const { runAsUser, runAsGroup, ...context } = pod?.spec?.securityContext ?? {}
    expect(context).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    })
    expect(`${runAsUser}:${runAsGroup}`).toBe(instructionOf('USER'))
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    const account = readManifest<IServiceAccount>('service-account.yaml')
    expect(pod?.spec?.serviceAccountName).toBe(account.metadata?.name)
    for (const of of [account, pod?.spec])
      expect(of?.automountServiceAccountToken).toBe(false)
  })

  it('keeps the ledger in a folder of the pod, which has a bound, and asks for storage for it and the log', () => {
    expect(container.volumeMounts).toEqual([
      { name: 'ledger', mountPath: settings.STATE_DIRECTORY },
    ])
    expect(pod?.spec?.volumes).toEqual([
      { name: 'ledger', emptyDir: { sizeLimit: '512Mi' } },
    ])
    const mebibytes = (quantity: unknown) =>
      Number(/^(\d+)Mi$/.exec(String(quantity))?.[1])
    // The kubelet keeps five files of 10 MiB of a container's log (containerLogMaxSize, containerLogMaxFiles).
    const asked = mebibytes(container.resources?.requests?.['ephemeral-storage'])
    expect(asked).toBeGreaterThanOrEqual(512 + 50)
  })
})

describe('the probes', () => {
  const { startupProbe, readinessProbe, livenessProbe } = container

  it('ask the operations port: readiness fails as soon as a drain begins, liveness does not', async () => {
    const gateway = await gatewayWith()
    const statusOf = async (probe: IProbe | undefined) => {
      expect(probe?.httpGet?.port).toBe('operations')
      return (await fetch(`${gateway.operationsUrl}${probe?.httpGet?.path}`)).status
    }
    for (const probe of [startupProbe, readinessProbe, livenessProbe])
      expect(await statusOf(probe)).toBe(200)
    void gateway.close({ delayMs: 60_000 })
    expect([await statusOf(readinessProbe), await statusOf(livenessProbe)]).toEqual([
      503, 200,
    ])
  })
})

describe('what selects the pods', () => {
  const labels = pod?.metadata?.labels ?? {}
  const services = ['service.yaml', 'service-operations.yaml'].map((name) =>
    readManifest<IService>(name),
  )
  const [ingress, egress] = ['network-policy.yaml', 'network-policy-egress.yaml'].map(
    (name) => readManifest<INetworkPolicy>(name).spec,
  )

  it('every selector selects these pods, also with the labels that kustomize adds', () => {
    const selectors = [
      deployment.spec?.selector.matchLabels,
      ...services.map(({ spec }) => spec?.selector),
      ...[ingress, egress].map((policy) => policy?.podSelector?.matchLabels),
      readManifest<IPodDisruptionBudget>('pod-disruption-budget.yaml').spec?.selector
        ?.matchLabels,
      ...(pod?.spec?.topologySpreadConstraints ?? []).map(
        ({ labelSelector }) => labelSelector?.matchLabels,
      ),
    ]
    expect(selectors).toHaveLength(8)
    for (const selector of selectors) expect(selector).toEqual(labels)
  })

  it('each Service leads to one port of the container, and callers do not reach the operations port', () => {
    const ports = services.map(({ spec }) =>
      spec?.ports?.map(({ targetPort }) => targetPort),
    )
    expect(ports).toEqual([['http'], ['operations']])
    const rules = ingress?.ingress ?? []
    expect(rules.map(({ ports }) => ports?.map(({ port }) => port))).toEqual([
      ['http'],
      ['operations'],
    ])
    for (const { from = [] } of rules) expect(from).not.toEqual([])
  })

  it('the egress NetworkPolicy denies all but names, the ports of the upstreams and of the store', () => {
    expect(egress?.policyTypes).toEqual(['Egress'])
    const portOf = (url: string | undefined, usual: number) =>
      Number(new URL(url ?? '').port || usual)
    const upstreams = [settings.SWAP_BASE_URL, settings.PAYMENTS_BASE_URL].map((url) =>
      portOf(url, 443),
    )
    const rules = egress?.egress ?? []
    expect(rules.map(({ ports }) => ports?.map(({ port }) => port))).toEqual([
      [53, 53],
      [...new Set(upstreams)],
      [portOf(secrets.VALKEY_URL, 6_379)],
    ])
    for (const { to = [] } of rules) expect(to).not.toEqual([])
    // No upstream has an address of a private network or of cloud metadata.
    const [four] = (rules[1]?.to ?? []).map(({ ipBlock }) => ipBlock)
    expect(four?.cidr).toBe('0.0.0.0/0')
    expect(four?.except).toEqual(
      expect.arrayContaining(['10.0.0.0/8', '169.254.0.0/16', '192.168.0.0/16']),
    )
  })

  it('Prometheus asks these pods at the path and port of the metrics, under the job that the rules expect', () => {
    const { metadata, spec } = readManifest<{
      metadata: { namespace: string }
      spec: {
        selector: object
        jobLabel: string
        podMetricsEndpoints: { port: string; path: string }[]
      }
    }>('pod-monitor.yaml')
    expect(metadata.namespace).toBe(kustomization.namespace)
    expect(spec.selector).toEqual({ matchLabels: labels })
    expect(labels[spec.jobLabel]).toBe('quotegate')
    expect(spec.podMetricsEndpoints).toEqual([
      expect.objectContaining({ port: 'operations', path: '/metrics' }),
    ])
    expect(pod?.metadata?.annotations).toMatchObject({
      'prometheus.io/port': String(portNamed('operations')),
      'prometheus.io/path': '/metrics',
    })
  })

  it('the autoscaler scales this Deployment, which sets no number of replicas, down one drained pod at a time', () => {
    const scaler = readManifest<IHorizontalPodAutoscaler>(
      'horizontal-pod-autoscaler.yaml',
    ).spec
    const { apiVersion, kind, metadata } = deployment
    expect(scaler?.scaleTargetRef).toEqual({ apiVersion, kind, name: metadata?.name })
    expect(deployment.spec?.replicas).toBeUndefined()
    expect(scaler?.minReplicas).toBeGreaterThan(1)
    const [policy] = scaler?.behavior?.scaleDown?.policies ?? []
    expect([policy?.type, policy?.value]).toEqual(['Pods', 1])
    expect(policy?.periodSeconds).toBeGreaterThan(
      pod?.spec?.terminationGracePeriodSeconds ?? 0,
    )
  })
})
