import { onTestFinished } from 'vitest'

/** Whatever escapes to the process from now on until the test ends; a real one would be ended by it. */
export function escapedErrors(): unknown[] {
  const escaped: unknown[] = []
  const note = (error: unknown) => escaped.push(error)
  process.on('unhandledRejection', note)
  process.on('uncaughtException', note)
  onTestFinished(() => {
    process.off('unhandledRejection', note)
    process.off('uncaughtException', note)
  })
  return escaped
}
