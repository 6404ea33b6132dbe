import type { ServerResponse } from 'node:http'
import type { SettingValue } from '../../../src/config/problems.ts'
import { ask, lookups, untilCounted } from '../clients/quotes.ts'
import { gatewayInVirtualTime, recordingUpstream, until } from './between.ts'

/** An upstream whose answers are given by the test, and a gateway in front of it whose deadlines come when the test says so. */
export async function held(settings: Record<string, SettingValue> = {}) {
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream((_request, response) => waiting.push(response))
  const { gateway, timers } = await gatewayInVirtualTime(upstream.url, {
    // A GET whose connection died is sent once more, which is another test's matter.
    retries: '0',
    // Nothing but the callers' leaving may end a call while a test looks.
    UPSTREAM_HEADERS_TIMEOUT_MS: '600000',
    UPSTREAM_TOTAL_TIMEOUT_MS: '600000',
    ...settings,
  })
  const crowd = (size: number) => Array.from({ length: size }, () => ask(gateway.url))
  /** Once this many calls have reached the upstream, counted from the start. */
  const called = (count: number) =>
    until(() => waiting.length >= count, `upstream call ${count}`)
  /** Once all of them have joined the one call that is under way. */
  async function joined(count: number): Promise<void> {
    await untilCounted(gateway, lookups('collapsed'), count)
    await called(1)
  }
  /** Once the connection of this call has closed; undici opens another one at once, for what may come. */
  const ended = (response: ServerResponse | undefined) =>
    until(
      () => response?.socket == null || response.socket.destroyed,
      'the upstream call to end',
    )
  return { upstream, gateway, timers, waiting, crowd, called, joined, ended }
}
