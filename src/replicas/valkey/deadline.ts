import { PatientTimer } from '../../process/patient-timer.ts'
import { StoreTimeout } from './failure.ts'

/** The answer, or a StoreTimeout once `timeoutMs` have passed: a client's own timeout may never fire. */
export function withDeadline<Answer>(timeoutMs: number, start: () => Promise<Answer>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const timer = new PatientTimer(timeoutMs, () => reject(new StoreTimeout(timeoutMs)))
    start()
      .finally(() => timer.clear())
      .then(resolve, reject)
  })
}
