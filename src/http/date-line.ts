/** The Date line is cached for one second, as Node caches its own. */
let dateOfSecond = ''
let dateUntilMs = 0

export function dateLine(): string {
  const nowMs = Date.now()
  if (nowMs >= dateUntilMs || nowMs < dateUntilMs - 1_000) {
    dateOfSecond = `Date: ${new Date(nowMs).toUTCString()}\r\n`
    dateUntilMs = nowMs - (nowMs % 1_000) + 1_000
  }
  return dateOfSecond
}
