import { connect } from 'node:net'

export interface RawAnswer {
  text: string
  /** How the connection ended: by the other side, or by us after waiting. */
  closed: boolean
  reset: boolean
}

/** Sends bytes as they are and gathers what comes back until the other side closes, or `waitMs` of silence. */
export function sendRaw(
  url: string,
  bytes: string | Buffer | readonly (string | Buffer)[],
  options: { waitMs?: number } = {},
): Promise<RawAnswer> {
  const { hostname, port } = new URL(url)
  const parts = typeof bytes === 'string' || Buffer.isBuffer(bytes) ? [bytes] : bytes
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let reset = false
    const socket = connect(Number(port), hostname, () => {
      for (const part of parts) socket.write(typeof part === 'string' ? Buffer.from(part, 'latin1') : part)
    })
    const finish = (closed: boolean) => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ text: Buffer.concat(chunks).toString('latin1'), closed, reset })
    }
    const timer = setTimeout(() => finish(false), options.waitMs ?? 500)
    socket.on('data', (chunk) => {
      chunks.push(chunk)
      timer.refresh()
    })
    socket.on('error', () => {
      reset = true
    })
    socket.on('close', () => finish(true))
  })
}
