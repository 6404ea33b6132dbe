/** Writes the pages under docs/ that come from the code, and the dashboard. */
import { writeFileSync } from 'node:fs'
import { settingsPage } from '../src/config/render.ts'
import { dashboardJson } from './dashboard/dashboard.ts'
import { openApiJson } from './openapi/document.ts'

writeFileSync(new URL('../docs/settings.md', import.meta.url), settingsPage())
writeFileSync(new URL('../docs/openapi.json', import.meta.url), openApiJson)
writeFileSync(new URL('../grafana/dashboards/quotegate.json', import.meta.url), dashboardJson())
