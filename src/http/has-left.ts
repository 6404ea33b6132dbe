import type { Socket } from 'node:net'

/**
 * Whether a client is gone whose connection may still look open. One that reset its connection before anybody asked for
 * its address has none left. Served all the same, it would share no quote with anybody and slip past the provider's
 * geolocation. A Unix socket has no address at either end.
 */
export function hasLeft(socket: Socket): boolean {
  return socket.destroyed || (socket.remoteAddress === undefined && socket.localAddress !== undefined)
}
