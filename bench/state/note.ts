import { rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type { State } from '../../src/state/state.ts'
import { openFolder, quoteRecord, restore } from './records.ts'

/** 4,600 quotes a second, about as many as one process requests. */
const perTick = 92
const tickMs = 20
const warmUpMs = 3_000
const roundMs = 8_000
const kept = 20_000
const forgetEveryMs = 1_500

/** Processor time of all threads for a quote that is noted and, if `removes`, forgotten later, in µs. */
export async function noteCost(folder: string | undefined, removes: boolean): Promise<number> {
  const state = folder === undefined ? undefined : await openFolder(folder)
  if (state) restore(state, new Map())
  const notes = new Notes(state, removes)
  await notes.add(warmUpMs)
  const noted = notes.count
  const before = process.cpuUsage()
  await notes.add(roundMs)
  const { user, system } = process.cpuUsage(before)
  await state?.close()
  if (folder !== undefined) rmSync(folder, { recursive: true })
  return (user + system) / (notes.count - noted)
}

class Notes {
  readonly #state: State | undefined
  readonly #removes: boolean
  readonly #memory = new Map<number, unknown>()
  count = 0

  constructor(state: State | undefined, removes: boolean) {
    this.#state = state
    this.#removes = removes
  }

  async add(forMs: number): Promise<void> {
    const endMs = performance.now() + forMs
    let forgotAtMs = performance.now()
    while (performance.now() < endMs) {
      for (let index = 0; index < perTick; index += 1) this.#note()
      if (performance.now() - forgotAtMs > forgetEveryMs) {
        forgotAtMs = performance.now()
        this.#forgetOldest()
      }
      await pause(tickMs)
    }
    // What was noted last is written as well.
    await pause(200)
  }

  #note(): void {
    this.count += 1
    const record = quoteRecord(this.count)
    this.#memory.set(this.#state?.note(record) ?? this.count, record)
  }

  #forgetOldest(): void {
    for (const serial of this.#memory.keys()) {
      if (this.#memory.size <= kept) break
      this.#memory.delete(serial)
      if (this.#removes) this.#state?.forget(serial)
    }
  }
}
