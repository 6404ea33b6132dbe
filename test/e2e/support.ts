import request, { type Test } from 'supertest'
import { onTestFinished } from 'vitest'
import type { SettingValue } from '../../src/config/problems.ts'
import type { GatewayOverrides } from '../../src/gateway/types.ts'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'

/** Closes it after the test, the last first. */
export function closing<Part extends { close(): Promise<void> }>(part: Part): Part {
  onTestFinished(() => part.close())
  return part
}

export interface Stage {
  sandbox: Sandbox
  gateway: RunningGateway
}

/** A gateway in front of a sandbox whose requests the test can look into. */
export async function setStage(
  settings: Record<string, SettingValue> = {},
  options: { sandbox?: SandboxOptions; overrides?: GatewayOverrides } = {},
): Promise<Stage> {
  const sandbox = closing(await startSandbox(options.sandbox))
  const baseUrls = { SWAP_BASE_URL: sandbox.url, PAYMENTS_BASE_URL: sandbox.url }
  const gateway = closing(await startGateway({ ...baseUrls, ...settings }, options.overrides))
  return { sandbox, gateway }
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
type Ask = (method: Method, target: string) => Test

/** The ways in which the service can be had: each story plays on all of them. */
export const everyWay: [way: string, open: (gateway: RunningGateway) => Ask][] = [
  ['the app', (gateway) => (method, target) => request(gateway.app)[method](target)],
  ['the listener', (gateway) => (method, target) => request(gateway.listener)[method](target)],
  ['the listening service', (gateway) => (method, target) => request(gateway.url)[method](target)],
]
