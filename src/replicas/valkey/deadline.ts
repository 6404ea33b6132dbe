import { PatientTimer } from '../../process/patient-timer.ts'
import { StoreTimeout } from './failure.ts'

/** Resolves with the answer, or rejects with a StoreTimeout after `timeoutMs`. A client's own timeout may never fire. */
export function withDeadline<Answer>(timeoutMs: number, start: () => Promise<Answer>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const timer = new PatientTimer(timeoutMs, () => reject(new StoreTimeout(timeoutMs)))
    start()
      .finally(() => timer.clear())
      .then(resolve, reject)
  })
}
