import type { Chance } from './chance.ts'
import { type Message, readMessages } from './line.ts'
import type { Made } from './provider.ts'
import type { Replica } from './replica.ts'
import type { World } from './world.ts'

interface Reply extends Message {
  readonly status: number
}

interface Posted {
  readonly body: string
  readonly key: string | undefined
}

/** Who asks has its answer by then: its deadlines, and what a replica that ends takes. */
const maxWaitMs = 40_000

/** A user who asks for quotes and orders with them, sometimes at the very moment of their end. */
export class User {
  readonly #world: World
  readonly #address: string
  readonly #chance: Chance

  constructor(world: World, address: string, chance: Chance) {
    this.#world = world
    this.#address = address
    this.#chance = chance
  }

  async live(): Promise<void> {
    const chance = this.#chance
    for (;;) {
      await this.#world.sleep(chance.between(1, 10_000))
      if (this.#world.isOver) return
      const amount = chance.between(1, 2)
      const pair = chance.of(['ETH_USDC', 'BTC_EUR'])
      const replica = this.#anyReplica()
      const made = await this.#quote(replica, pair, amount)
      if (made === undefined) continue
      await this.#waitFor(made)
      if (chance.happens(0.4)) await this.#quote(replica, pair, amount)
      else await this.#order(made, replica)
    }
  }

  #anyReplica(): Replica {
    const { replicas } = this.#world
    const replica = this.#chance.of(replicas as [Replica, Replica])
    return replica.isServing
      ? replica
      : (replicas.find(({ isServing }) => isServing) ?? replica)
  }

  /** Soon, at its end, or later. */
  #waitFor({ endsAtMs }: Made): Promise<void> {
    const chance = this.#chance
    const leftMs = endsAtMs - this.#world.nowMs()
    const atItsEndMs = leftMs + chance.of([-1, 0, 1])
    const ms = chance.of([
      chance.between(1, 8_000),
      atItsEndMs,
      leftMs + chance.between(10, 20_000),
    ])
    return this.#world.sleep(Math.max(1, ms))
  }

  async #quote(
    replica: Replica,
    pair: string,
    amount: number,
  ): Promise<Made | undefined> {
    const world = this.#world
    const reply = await this.#ask(
      replica,
      `GET /v3/pairs/${pair}/quotes?amount=${amount}`,
    )
    if (reply?.status !== 200) return undefined
    const { id } = JSON.parse(reply.body)
    const made = world.provider.made.get(id)
    const isKept = !reply.headers.get('cache-status')?.includes('bypass')
    world.facts.quotes += 1
    if (reply.headers.get('cache-status')?.includes('hit')) world.facts.hits += 1
    if (made?.body !== reply.body) world.wrong(`${id} is not what the provider gave`)
    if (made?.address !== this.#address)
      world.wrong(`${id} of ${made?.address} was given to ${this.#address}`)
    const overForMs = world.nowMs() - (made?.endsAtMs ?? 0)
    if (isKept && overForMs >= 0)
      world.wrong(`${id} was served ${overForMs} ms past its end`)
    if (isKept && replica.used.has(id))
      world.wrong(`${id} was served after an order had used it`)
    return made
  }

  async #order(made: Made, replica: Replica): Promise<void> {
    const chance = this.#chance
    const { id: quoteId, ...terms } = JSON.parse(made.body)
    const number = this.#world.nextOrder()
    const ref = `order-${number}`
    const isNamed = chance.happens(0.6)
    const body = JSON.stringify({
      ...terms,
      ref,
      toAddress: 'a1',
      ...(isNamed && { quoteId }),
    })
    const key = chance.happens(0.4) ? `key-${number}` : undefined
    const isTwice = key !== undefined && chance.happens(0.2)
    if (isTwice) void this.#post(made, this.#anyReplica(), { body, key })
    for (let tries = 0; tries < 3; tries += 1) {
      const asked = tries === 0 && chance.happens(0.5) ? replica : this.#anyReplica()
      const reply = await this.#post(made, asked, { body, key })
      const isKnown =
        reply !== undefined &&
        reply.status < 500 &&
        !reply.body.includes('order-in-progress')
      if (isKnown || key === undefined) return
      await this.#world.sleep(chance.between(500, 3_000))
    }
  }

  async #post(
    { id, endsAtMs }: Made,
    replica: Replica,
    { body, key }: Posted,
  ): Promise<Reply | undefined> {
    const world = this.#world
    world.facts.orders += 1
    const knows = replica.parts.ledger.findById(id) !== undefined
    const reply = await this.#ask(replica, 'POST /v3/orders/float', { body, key })
    const isReplayed = reply?.headers.get('idempotent-replayed') !== undefined
    if (isReplayed) world.facts.replayed += 1
    // A replica that did not know the quote may have sent that order.
    else if (reply?.status === 201 && knows && body.includes('quoteId'))
      replica.used.add(id)
    if (reply?.status !== 409) return reply
    const { type } = JSON.parse(reply.body)
    if (type.endsWith('quote-unknown'))
      world.wrong(`an order for ${id} was refused as unknown`)
    if (!type.endsWith('quote-expired')) return reply
    world.facts.refused += 1
    const leftMs = endsAtMs - world.nowMs()
    if (leftMs > 0)
      world.wrong(`an order for ${id} was refused ${leftMs} ms before its end`)
    return reply
  }

  /** Undefined: it has left, or the replica has ended. */
  #ask(
    replica: Replica,
    first: string,
    posted: Partial<Posted> = {},
  ): Promise<Reply | undefined> {
    const world = this.#world
    const leavesAfterMs = this.#chance.happens(0.08)
      ? this.#chance.between(1, 100)
      : undefined
    if (!replica.isServing) return Promise.resolve(undefined)
    const { body, key } = posted
    const line = replica.lineFrom(this.#address)
    const fields = [
      'Host: g',
      'App-Name: wallet',
      ...(key === undefined ? [] : [`Idempotency-Key: ${key}`]),
    ]
    if (body !== undefined) fields.push(`Content-Length: ${body.length}`)
    line.write(`${first} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n${body ?? ''}`)
    return new Promise((resolve) => {
      const timers = world.timers
      const leave = timers.setTimeout(() => line.destroy(), leavesAfterMs ?? maxWaitMs)
      let isOver = false
      const end = (reply?: Reply) => {
        isOver = true
        timers.clear(leave)
        // A problem has a request id that is random.
        world.saw(
          `${this.#address} ${first} ${reply?.status} ${reply?.body.replace(/"(?:requestId|instance).*/, '')}`,
        )
        resolve(reply)
        line.destroy()
      }
      readMessages(line, (message) =>
        end({ ...message, status: Number(message.line.split(' ')[1]) }),
      )
      line.once('close', () => {
        if (isOver) return
        if (leavesAfterMs === undefined && replica.isServing)
          world.wrong(`${first} has no answer`)
        end()
      })
    })
  }
}
