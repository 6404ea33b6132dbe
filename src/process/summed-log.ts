import type { Logger } from './logger.ts'

/** What the lines of one cause share. */
interface RepeatedLine {
  level: 'info' | 'warn' | 'error'
  /** The values tell causes apart. They come from closed sets, so that no caller makes up causes. */
  cause: Readonly<Record<string, string | number | undefined>>
  message: string
}

interface Repeated {
  line: RepeatedLine
  times: number
  timer: NodeJS.Timeout
}

const everyMs = 10_000

/** Keeps callers from flooding the log: one line for each cause, then every 10 s how many more. */
export class SummedLog {
  readonly #log: Logger
  readonly #repeated = new Map<string, Repeated>()

  constructor(log: Logger) {
    this.#log = log
  }

  /** Logs a cause's first line, and counts the others. `members` is called only for a logged line. */
  say(line: RepeatedLine, members?: () => object): void {
    const { level, cause, message } = line
    if (!this.#log.isLevelEnabled(level)) return
    const key = `${level} ${Object.values(cause).join(' ')}`
    const known = this.#repeated.get(key)
    if (known !== undefined) {
      known.times += 1
      return
    }
    const timer = setTimeout(() => {
      if (entry.times > 0) timer.refresh()
      else this.#repeated.delete(key)
      this.#sayHowMany(entry)
    }, everyMs).unref()
    const entry: Repeated = { line, times: 0, timer }
    this.#repeated.set(key, entry)
    this.#log[level]({ ...members?.(), ...cause }, message)
  }

  /** Logs what was only counted. */
  flush(): void {
    for (const entry of this.#repeated.values()) {
      clearTimeout(entry.timer)
      this.#sayHowMany(entry)
    }
    this.#repeated.clear()
  }

  #sayHowMany(entry: Repeated): void {
    const { level, cause, message } = entry.line
    const { times } = entry
    entry.times = 0
    if (times > 0)
      this.#log[level](
        { ...cause, times },
        `${times} more within ${everyMs / 1_000} s: ${message}`,
      )
  }
}
