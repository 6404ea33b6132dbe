/** Runs one at a time. A requested run begins after the request: all requests during a run share the next one. */
export class SharedRuns {
  readonly #run: () => Promise<boolean>
  #current: Promise<boolean> | undefined
  #next: Promise<boolean> | undefined

  /** `run` never rejects. */
  constructor(run: () => Promise<boolean>) {
    this.#run = run
  }

  /** The run that is under way. */
  get current(): Promise<boolean> | undefined {
    return this.#current
  }

  next(): Promise<boolean> {
    this.#next ??= this.#afterCurrent()
    return this.#next
  }

  async #afterCurrent(): Promise<boolean> {
    await this.#current
    this.#next = undefined
    this.#current = this.#run().finally(() => {
      this.#current = undefined
    })
    return this.#current
  }
}
