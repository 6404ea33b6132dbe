import type { ServerResponse } from 'node:http'
import { PatientTimer } from '../process/patient-timer.ts'
import type { SlowReaders } from './slow-readers.ts'

export interface ClientPaceOptions {
  response: ServerResponse
  /** How long the client may stop reading. */
  stallMs: number
  slowReaders: Pick<SlowReaders, 'heldUp'>
}

/** A client that does not take its answer as fast as it comes. Meanwhile the answer holds a connection to the upstream. */
export class ClientPace {
  readonly #options: ClientPaceOptions
  /** undici's body timeout stops while an answer is paused, so a client that never reads needs a timer here. */
  readonly #stallTimer: PatientTimer

  constructor(options: ClientPaceOptions) {
    const { response, stallMs } = options
    this.#options = options
    this.#stallTimer = new PatientTimer(stallMs, () => {
      if (response.writableNeedDrain) response.destroy()
    })
  }

  /** The client has to take these bytes before `goOn` is called. */
  heldUp(bytes: number, goOn: () => void): void {
    const { response, slowReaders } = this.#options
    slowReaders.heldUp(response, bytes)
    response.once('drain', goOn)
    this.#stallTimer.refresh()
  }

  clear(): void {
    this.#stallTimer.clear()
  }
}
