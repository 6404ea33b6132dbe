import { StoreTimeout } from './failure.ts'

/** The answer, or a StoreTimeout once `timeoutMs` have passed: a client's own timeout may never fire. */
export function withDeadline<Answer>(timeoutMs: number, start: () => Promise<Answer>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    // After a pause of this process the timer is late and so is the answer, which lies in the socket already:
    // that is read before an immediate runs, and the store is not blamed for us.
    const timer = setTimeout(() => setImmediate(() => reject(new StoreTimeout(timeoutMs))), timeoutMs)
    start()
      .finally(() => clearTimeout(timer))
      .then(resolve, reject)
  })
}
