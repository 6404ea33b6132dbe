import { execFileSync } from 'node:child_process'
import { openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { pause } from '../support/gateways/between.ts'
import { newFolder, opened, untilTrue, untilWritten } from './support.ts'

// A file that every sync opens, and whose opening hangs in a thread of libuv's pool until another process writes to it.
function hangSyncs(directory: string): () => void {
  const pipe = join(directory, 'store', 'hangs.log')
  execFileSync('mkfifo', [pipe])
  let isHanging = true
  function release() {
    if (!isHanging) return
    isHanging = false
    // For reading as well, so that this does not hang itself.
    openSync(pipe, 'r+')
    rmSync(pipe)
  }
  onTestFinished(release)
  return release
}

test.skipIf(process.platform === 'win32')(
  'syncs of a disk that hangs hold one thread, so that later writes continue',
  async () => {
    const directory = newFolder()
    const state = await opened(directory)
    const release = hangSyncs(directory)
    // Libuv has four threads. A sync begins every 400 ms, so that all four would hang by the end.
    for (let number = 0; number < 30; number += 1) {
      state.note({ kind: 'use', value: { id: `${number}`, expiresAtMs: 1_763_651_871_000 } })
      await untilWritten(state)
      await pause(100)
    }
    expect(state.state.facts.records).toBe(30)
    const { syncedAtMs } = state.state.facts
    expect(Date.now() - syncedAtMs).toBeGreaterThan(2_500)
    expect(state.failures).toEqual([])
    // A pipe cannot be synced, so that this one sync fails in the end.
    release()
    await untilTrue(() => state.state.facts.syncedAtMs > syncedAtMs, 'the syncs to go on')
  },
)
