import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { pause, until } from '../support/gateways/between.ts'
import { watched } from '../support/stores/watched-store.ts'

// What Redis 7 writes to a connection from another machine, before it closes it (networking.c). The log said
// "write EPIPE", because the gateway wrote its commands before it read that.
const denied =
  '-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the ' +
  'default user. In this mode connections are only accepted from the loopback interface.\r\n'

async function refusingServer(refuse: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {}).resume()
    refuse(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test.each<[string, (socket: Socket) => void]>([
  [
    'at once',
    (socket) => {
      socket.write(denied)
      socket.destroySoon()
    },
  ],
  [
    'a moment later',
    (socket) => {
      setTimeout(() => {
        socket.write(denied)
        socket.destroySoon()
      }, 20)
    },
  ],
])(
  "a store in protected mode refuses the gateway %s: the log has the store's own words",
  async (_when, refuse) => {
    const { store, complaints } = await watched(await refusingServer(refuse), { mayBeDown: true })
    await until(() => complaints().length > 0, 'a line about it')
    await pause(1_500)
    expect(complaints()).toEqual([
      expect.stringMatching(
        /protected mode and refuses .* \(DENIED Redis is running .* loopback interface\.\)/,
      ),
    ])
    expect(store.up).toBe(false)
  },
)
