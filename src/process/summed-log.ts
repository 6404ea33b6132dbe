import type { Logger } from './logger.ts'

/** What all lines of one cause have in common. */
interface RepeatedLine {
  level: 'info' | 'warn' | 'error'
  /** Its values tell one cause from another. They come from closed sets, so that no client can make up causes. */
  cause: Readonly<Record<string, string | number | undefined>>
  message: string
}

export interface SummedLog {
  /** Logs the first line of a cause, and counts the others. `members` is called only for a line that is logged. */
  say(line: RepeatedLine, members?: () => object): void
  /** Logs what was counted and not logged yet. */
  flush(): void
}

interface Repeated {
  line: RepeatedLine
  times: number
  timer: NodeJS.Timeout
}

const defaultEveryMs = 10_000

/**
 * Keeps a client from flooding the log: one line for each cause, and then every 10 s a line that says how many more there
 * were.
 */
export function createSummedLog(log: Logger, everyMs = defaultEveryMs): SummedLog {
  const repeated = new Map<string, Repeated>()

  function sayHowMany({ line: { level, cause, message }, times }: Repeated): void {
    log[level]({ ...cause, times }, `${times} more within ${everyMs / 1_000} s: ${message}`)
  }

  function endOfWindow(key: string, entry: Repeated): void {
    if (entry.times === 0) {
      repeated.delete(key)
      return
    }
    sayHowMany(entry)
    entry.times = 0
    entry.timer.refresh()
  }

  return {
    say(line, members) {
      const { level, cause, message } = line
      if (!log.isLevelEnabled(level)) return
      const key = `${level} ${Object.values(cause).join(' ')}`
      const known = repeated.get(key)
      if (known !== undefined) {
        known.times += 1
        return
      }
      const timer = setTimeout(() => endOfWindow(key, entry), everyMs).unref()
      const entry: Repeated = { line, times: 0, timer }
      repeated.set(key, entry)
      log[level]({ ...members?.(), ...cause }, message)
    },
    flush() {
      for (const entry of repeated.values()) {
        clearTimeout(entry.timer)
        if (entry.times > 0) sayHowMany(entry)
      }
      repeated.clear()
    },
  }
}
