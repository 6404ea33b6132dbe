import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { loadConfig } from '../../src/config/load.ts'
import { isKnownName } from '../../src/config/settings.ts'
import { environmentOf, services } from '../support/deploy/compose.ts'
import { imageEnv, instructionOf, repository } from '../support/deploy/dockerfile.ts'
import { readGrafana } from '../support/observing/grafana.ts'

const named = Object.entries(services)
const ours = named.filter(([, { image }]) => image === 'quotegate')

const mountsOf = (name: string) =>
  (services[name]?.volumes ?? []).map((volume) => {
    const [source = '', target = '', mode = ''] = volume.split(':')
    return { source, target, mode }
  })

/** Mounts of the repository's files, and not of volumes that have a name. */
const filesOf = (name: string) =>
  mountsOf(name).filter(({ source }) => source.startsWith('.'))

/** Where a file of the repository is seen inside a container. */
function insideOf(name: string, path: string): string | undefined {
  const mount = mountsOf(name).find(({ source }) =>
    join('.', path).startsWith(join('.', source)),
  )
  return (
    mount && join(mount.target, join('.', path).slice(join('.', mount.source).length))
  )
}

const configOf = (name: string) =>
  loadConfig({ ...imageEnv(), ...environmentOf(name) }).config
const { traffic, admin, drain } = configOf('quotegate')

/** Ports that a service listens on inside its container. */
const listening: Record<string, number[]> = {
  quotegate: [traffic.port, admin.port],
  sandbox: [configOf('sandbox').traffic.port],
  valkey: [6379],
  prometheus: [9090],
  grafana: [3000],
}

it('gives the store room for a whole journal, and a policy that drops no key of an order', () => {
  const command = services.valkey?.command ?? []
  const flag = (name: string) => command[command.indexOf(name) + 1]
  expect(flag('--maxmemory-policy')).toBe('volatile-ttl')
  const bytesARecord = 240
  const journal = configOf('quotegate').ledger.entries * 2.5 * bytesARecord
  expect(Number.parseInt(flag('--maxmemory') ?? '', 10) * 2 ** 20).toBeGreaterThan(
    1.5 * journal,
  )
})

describe.each(named)('%s', (name, service) => {
  it('can write nowhere but to its ledger, has no capability and gains none', () => {
    const { read_only, cap_drop, security_opt } = service
    expect([read_only, cap_drop, security_opt]).toEqual([
      true,
      ['ALL'],
      ['no-new-privileges:true'],
    ])
    for (const { mode } of filesOf(name)) expect(mode).toBe('ro')
  })

  it('is an image of one exact version, or the one that is built here', () =>
    expect(service.image).toMatch(/^(?:quotegate|[\w/]+:v?\d+\.\d+\.\d+(?:-alpine)?)$/))

  it('is published on the loopback interface alone, by ports that it listens on', () => {
    for (const published of service.ports ?? []) {
      const [, port] = /^127\.0\.0\.1:\d+:(\d+)$/.exec(published) ?? []
      expect(listening[name], published).toContain(Number(port))
    }
  })

  it('names files that exist, other services by their real names and ports, and waits for those that can be', () => {
    expect(
      filesOf(name).filter(({ source }) => !existsSync(join(repository, source))),
    ).toEqual([])
    for (const value of Object.values(environmentOf(name))) {
      const [, host = '', port] = /^\w+:\/\/([\w.-]+):(\d+)/.exec(value) ?? []
      if (port !== undefined) expect(listening[host], value).toContain(Number(port))
    }
    for (const [other, { condition }] of Object.entries(service.depends_on ?? {})) {
      expect(condition).toBe('service_healthy')
      const hasCheck =
        services[other]?.healthcheck !== undefined ||
        services[other]?.image === 'quotegate'
      expect(hasCheck, other).toBe(true)
    }
  })
})

describe('the containers of the gateway', () => {
  it.each(ours)('%s has settings that exist and are valid', (name) => {
    expect(
      Object.keys(environmentOf(name)).filter((setting) => !isKnownName(setting)),
    ).toEqual([])
    expect(() => configOf(name)).not.toThrow()
  })

  it('are built once, from this folder, and expose the ports that they listen on', () => {
    expect(ours.map(([, { build }]) => build)).toEqual(['.', undefined])
    expect(instructionOf('EXPOSE')).toBe(listening.quotegate?.join(' '))
  })

  it('have the sandbox for both upstreams, and the shared store', () => {
    const { SWAP_BASE_URL, PAYMENTS_BASE_URL, VALKEY_URL } = environmentOf('quotegate')
    expect(services.sandbox?.command).toEqual(['--sandbox'])
    expect([SWAP_BASE_URL, PAYMENTS_BASE_URL]).toEqual([
      'http://sandbox:8080',
      'http://sandbox:8080',
    ])
    expect(VALKEY_URL).toBe('redis://valkey:6379')
  })

  it('keep the ledger in a volume, over a folder that the image made for its user', () => {
    const { STATE_DIRECTORY } = environmentOf('quotegate')
    expect(mountsOf('quotegate')).toEqual([
      { source: 'ledger', target: STATE_DIRECTORY, mode: '' },
    ])
    expect(instructionOf('RUN')).toBe(
      `install -d -o 1000 -g 1000 -m 0700 ${STATE_DIRECTORY}`,
    )
  })

  it('have a stop timeout as long as a drain may take', () => {
    const [, graceS] = /^(\d+)s$/.exec(services.quotegate?.stop_grace_period ?? '') ?? []
    expect(Number(graceS) * 1_000).toBeGreaterThan(
      drain.delayMs + drain.timeoutMs + 2_000,
    )
  })
})

describe('Prometheus and Grafana', () => {
  it('Prometheus reads prometheus.yml with the rules beside it, scrapes the gateway, and may write its data', () => {
    const { rule_files, scrape_configs } = parse(readGrafana('prometheus.yml')) as {
      rule_files: string[]
      scrape_configs: { static_configs: { targets: string[] }[] }[]
    }
    const { command = [], tmpfs } = services.prometheus ?? {}
    const inside = insideOf('prometheus', 'grafana/prometheus.yml')
    expect(command).toContain(`--config.file=${inside}`)
    for (const file of rule_files)
      expect(insideOf('prometheus', `grafana/${file}`)).toBe(
        join(inside ?? '', '..', file),
      )
    expect(scrape_configs).toMatchObject([
      { static_configs: [{ targets: [`quotegate:${admin.port}`] }] },
    ])
    const [, data] = /--storage\.tsdb\.path=(\S+)/.exec(command.join(' ')) ?? []
    // A tmpfs over a folder of the image takes that folder's mode and not its owner: without a uid it is root's.
    expect(tmpfs).toEqual([`${data}:uid=65534,gid=65534,mode=0700`])
  })

  it('Grafana finds its provisioning files, the dashboards that they name, and the Prometheus of this file', () => {
    expect(insideOf('grafana', 'grafana/provisioning')).toBe('/etc/grafana/provisioning')
    const { providers } = parse(readGrafana('provisioning/dashboards/quotegate.yml'))
    expect(insideOf('grafana', 'grafana/dashboards')).toBe(providers[0].options.path)
    const [file] = readdirSync(join(repository, 'grafana/dashboards'))
    expect(environmentOf('grafana').GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH).toBe(
      insideOf('grafana', `grafana/dashboards/${file}`),
    )
    const { datasources } = parse(readGrafana('provisioning/datasources/prometheus.yml'))
    expect(datasources).toMatchObject([{ url: 'http://prometheus:9090' }])
  })
})
