import { runbookPage } from '../links.ts'
import { layOut } from './panel.ts'
import { cache } from './rows-cache.ts'
import { overview } from './rows-overview.ts'
import { process } from './rows-process.ts'
import { floatOrders, quoteFreshness } from './rows-quotes.ts'
import { store } from './rows-store.ts'
import { traffic } from './rows-traffic.ts'
import { upstreams } from './rows-upstreams.ts'

const prometheus = { type: 'prometheus', uid: '$datasource' }

function choice(name: string, label: string, values: string): object {
  return {
    name,
    label,
    type: 'query',
    datasource: prometheus,
    query: { query: values, refId: name },
    definition: values,
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    current: { text: ['All'], value: ['$__all'] },
  }
}

/** grafana/dashboards/quotegate.json as text; `npm run docs` writes it. */
export function dashboardJson(): string {
  const dashboard = {
    uid: 'quotegate',
    title: 'quotegate',
    description:
      'The gateway between our services, a swap API and a payments API. Written by npm run docs: change scripts/dashboard/.',
    tags: ['quotegate'],
    schemaVersion: 38,
    version: 1,
    editable: true,
    // Shared crosshair.
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    timezone: 'browser',
    links: [
      {
        title: 'Runbook',
        type: 'link',
        icon: 'doc',
        url: '$runbook',
        targetBlank: true,
        tooltip: 'What to do when something here looks bad',
      },
    ],
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', current: {} },
        choice('job', 'Job', 'label_values(quotegate_build_info, job)'),
        choice('instance', 'Instance', 'label_values(quotegate_build_info{job=~"$job"}, instance)'),
        { name: 'runbook', label: 'Runbook', type: 'constant', hide: 2, query: runbookPage },
      ],
    },
    annotations: {
      list: [
        {
          name: 'Restarts',
          datasource: prometheus,
          enable: true,
          iconColor: 'purple',
          expr: 'changes(process_start_time_seconds{job=~"$job",instance=~"$instance"}[$__rate_interval]) > 0',
          titleFormat: 'restart of {{instance}}',
        },
      ],
    },
    panels: layOut([overview, traffic, cache, quoteFreshness, floatOrders, upstreams, store, process], {
      open: 2,
    }),
  }
  return `${JSON.stringify(dashboard, null, 2)}\n`
}
