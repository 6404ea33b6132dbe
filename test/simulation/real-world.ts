import { Server, Socket } from 'node:net'
import type { VirtualTime } from '../support/machine/virtual-time.ts'

/** Time stands still until that has settled, which Node takes its own time for, such as the loading of a module. */
export type Wait = <Value>(settles: Promise<Value>) => Promise<Value>

interface Surroundings {
  readonly time: VirtualTime
  /** The wall clock at the beginning of that time. */
  readonly epochMs: number
  readonly random: () => number
}

/**
 * Plays something in which Node's clocks, timers and sockets have no part. undici has no other timers than Node's, so it
 * is given ours; that any other code asks for one is an error, and so is a socket.
 */
export async function inVirtualTime<Result>(
  { time, epochMs, random }: Surroundings,
  play: (pass: (ms: number) => Promise<void>, untilThen: Wait) => Promise<Result>,
): Promise<Result> {
  const turn = globalThis.setImmediate
  const immediates = new Set<NodeJS.Immediate>()
  let awaited = 0

  /** All that goes on without time. */
  async function comeToRest(): Promise<void> {
    do await new Promise<void>((resolve) => turn(resolve))
    while (immediates.size > 0 || awaited > 0)
  }

  const replacements: readonly (readonly [object, Record<string, unknown>])[] = [
    [
      globalThis,
      {
        setTimeout: (
          onTime: (...all: unknown[]) => void,
          ms: number,
          ...all: unknown[]
        ) => {
          onlyUndici(onTime)
          return time.setTimeout(() => onTime(...all), ms)
        },
        clearTimeout: (timer: undefined) => time.clear(timer),
        setInterval: notHere,
        setImmediate: (onTurn: (...all: unknown[]) => void, ...all: unknown[]) => {
          const immediate = turn(() => {
            immediates.delete(immediate)
            onTurn(...all)
          })
          immediates.add(immediate)
          return immediate
        },
        clearImmediate: (immediate: NodeJS.Immediate) => {
          immediates.delete(immediate)
          clearTurn(immediate)
        },
      },
    ],
    [performance, { now: () => time.steadyMs() }],
    [Date, { now: () => Math.floor(epochMs + time.steadyMs()) }],
    [Math, { random }],
    [Socket.prototype, { connect: notHere }],
    [Server.prototype, { listen: notHere }],
  ]
  const clearTurn = globalThis.clearImmediate
  const before = replacements.map(
    ([owner, members]) => [owner, pick(owner, Object.keys(members))] as const,
  )
  for (const [owner, members] of replacements) Object.assign(owner, members)
  try {
    const pass = async (ms: number) => {
      const untilMs = time.steadyMs() + ms
      do await comeToRest()
      while (time.next(untilMs))
    }
    return await play(pass, (settles) => {
      awaited += 1
      return settles.finally(() => {
        awaited -= 1
      })
    })
  } finally {
    for (const [owner, members] of before) Object.assign(owner, members)
  }
}

function pick(owner: object, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    names.map((name) => [name, (owner as Record<string, unknown>)[name]]),
  )
}

/** Its timers have the same few functions, each looked at once. */
const ofUndici = new WeakSet<object>()

function onlyUndici(onTime: object): void {
  if (ofUndici.has(onTime)) return
  const { stack = '' } = new Error('a timer of Node in a simulated world')
  if (!stack.includes('/undici/')) throw new Error(stack)
  ofUndici.add(onTime)
}

function notHere(): never {
  throw new Error('no socket and no interval of Node is in a simulated world')
}
