import request, { type Test } from 'supertest'
import { onTestFinished } from 'vitest'
import type { SettingValue } from '../../src/config/problems.ts'
import type { GatewayOverrides } from '../../src/gateway/types.ts'
import { type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.ts'
import { gatewayTo } from '../support/gateways/between.ts'
import type { RunningGateway } from '../support/gateways/gateway.ts'

/** A gateway in front of a sandbox whose requests the test can look into. */
export async function setStage(
  settings: Record<string, SettingValue> = {},
  options: { sandbox?: SandboxOptions; overrides?: GatewayOverrides } = {},
) {
  const sandbox = await startSandbox(options.sandbox)
  onTestFinished(() => sandbox.close())
  return { sandbox, gateway: await gatewayTo(sandbox.url, settings, options.overrides) }
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
type Ask = (method: Method, target: string) => Test

/** The ways in which the service can be had: each story plays on all of them. */
export const everyWay: [way: string, open: (gateway: RunningGateway) => Ask][] = [
  ['the app', (gateway) => (method, target) => request(gateway.app)[method](target)],
  [
    'the listener',
    (gateway) => (method, target) => request(gateway.listener)[method](target),
  ],
  [
    'the listening service',
    (gateway) => (method, target) => request(gateway.url)[method](target),
  ],
]
