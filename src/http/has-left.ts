import type { Socket } from 'node:net'

/**
 * Whether a client is gone whose connection may still look open. If it reset its connection before its address
 * was read, the address is lost. Its request, if served, would share no quote and slip past the provider's
 * geolocation. A Unix socket has no address at either end.
 */
export function hasLeft(socket: Socket): boolean {
  return socket.destroyed || (socket.remoteAddress === undefined && socket.localAddress !== undefined)
}

/** The client left before its request or its answer was whole. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
  /** Whether the upstream may have seen the request. */
  readonly maybeSeen: boolean

  constructor(message: string, { maybeSeen }: { maybeSeen: boolean }) {
    super(message)
    this.maybeSeen = maybeSeen
  }
}
