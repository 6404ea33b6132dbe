import { get } from 'node:http'

const timeoutMs = 2_500

/** The gateway's own /healthz. A connection to 0.0.0.0 or :: goes to this machine. */
export function healthUrl(environment: NodeJS.ProcessEnv): string {
  const read = (name: string) => environment[name]?.trim()
  const host = read('ADMIN_HOST') || read('HOST') || '127.0.0.1'
  return `http://${/^[^[].*:/.test(host) ? `[${host}]` : host}:${read('ADMIN_PORT') || '8081'}/healthz`
}

/** What is wrong at this URL: undefined if it answers 200 in time. */
export function checkHealth(url: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(timeoutMs)
    const fail = (error: unknown) =>
      resolve(
        `${url}: ${signal.aborted ? `no answer within ${timeoutMs} ms` : (error as Error).message}`,
      )
    try {
      get(url, { signal }, ({ statusCode }) => {
        resolve(statusCode === 200 ? undefined : `${url} answered ${statusCode}`)
      }).on('error', fail)
    } catch (error) {
      fail(error)
    }
  })
}
