import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A line between the store and its client, which can be made bad. */
export interface StoreLine {
  readonly url: string
  /** How long every answer is held back. */
  delayMs: number
  /** The connections that there are stay open and carry nothing any more. */
  swallow(): void
  /** `swallowing`: that goes for new ones too. `cut`: all of them end. Those that were swallowed stay dead once it is open. */
  set(state: 'open' | 'swallowing' | 'cut'): void
  /** The connections that there are get these bytes from the store. */
  say(bytes: string): void
  /** Where connections lead that are made from now on. */
  moveTo(port: number): void
  end(): void
}

export async function startStoreLine(firstPort: number): Promise<StoreLine> {
  let port = firstPort
  let state: 'open' | 'swallowing' | 'cut' = 'open'
  const sockets = new Set<Socket>()
  const nears = new Set<Socket>()
  const swallowed = new Set<Socket>()
  const server = createServer((near) => {
    if (state === 'cut') {
      near.on('error', () => {}).destroy()
      return
    }
    if (state === 'swallowing') swallowed.add(near)
    const far = connect(port, '127.0.0.1')
    nears.add(near.on('close', () => nears.delete(near)))
    for (const socket of [near, far]) {
      sockets.add(socket.setNoDelay(true))
      socket
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(socket)
          near.destroy()
          far.destroy()
        })
    }
    near.on('data', (chunk) => swallowed.has(near) || far.write(chunk))
    far.on('data', (chunk) => {
      setTimeout(() => swallowed.has(near) || near.write(chunk), line.delayMs)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const line: StoreLine = {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    delayMs: 0,
    swallow() {
      for (const socket of sockets) swallowed.add(socket)
    },
    set(newState) {
      state = newState
      if (state === 'swallowing') line.swallow()
      if (state === 'cut') for (const socket of sockets) socket.destroy()
    },
    say(bytes) {
      for (const near of nears) near.write(bytes)
    },
    moveTo(newPort) {
      port = newPort
    },
    end() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
  return line
}
