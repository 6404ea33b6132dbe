import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { repository } from './dockerfile.ts'

export interface Service {
  image: string
  build?: string
  command?: string[]
  environment?: Record<string, string>
  ports?: string[]
  volumes?: string[]
  tmpfs?: string[]
  healthcheck?: { test: string[] }
  depends_on?: Record<string, { condition: string }>
  stop_grace_period?: string
  read_only: boolean
  cap_drop: string[]
  security_opt: string[]
}

export const services = (
  parse(readFileSync(`${repository}compose.yaml`, 'utf8'), { merge: true }) as {
    services: Record<string, Service>
  }
).services

/** With ${NAME:-default} replaced by its default, as when nothing is set. */
export function environmentOf(name: string): Record<string, string> {
  const given = Object.entries(services[name]?.environment ?? {})
  return Object.fromEntries(
    given.map(([key, value]) => [key, value.replace(/\$\{\w+:-([^}]*)\}/g, '$1')]),
  )
}
