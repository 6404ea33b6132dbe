import { randomUUID } from 'node:crypto'
import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { idHeader, readJson } from '../clients.ts'

export interface HonestTally {
  hitMs: number[]
  orders: number
  /** What became of orders that were not accepted. */
  refusedOrders: string[]
  others: number
  /** Problems and broken connections of small GETs, payments and quotes, by name. */
  failed: Map<string, number>
  /** Requests that got no answer at all. */
  forgotten: string[]
  wrong: string[]
  expired: string[]
  /** Of POSTs that were answered with a 2xx. */
  accepted: string[]
}

export const newHonestTally = (): HonestTally => ({
  hitMs: [],
  orders: 0,
  refusedOrders: [],
  others: 0,
  failed: new Map(),
  forgotten: [],
  wrong: [],
  expired: [],
  accepted: [],
})

interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: Record<string, unknown>
}

/** Longer than any deadline of the gateway. */
const patienceMs = 60_000

/** Clients whose connections are open before the attack begins. They do nothing wrong and read what they are sent. */
export class HonestClient {
  readonly #url: URL
  readonly #tally: HonestTally
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })

  constructor(url: string, tally: HonestTally) {
    this.#url = new URL(url)
    this.#tally = tally
  }

  /** A quote, which is a hit nearly always. */
  async quote(amount: string): Promise<Record<string, unknown> | undefined> {
    const sentAtMs = Date.now()
    const startedAtMs = performance.now()
    const answer = await this.#send('GET', `/v3/pairs/ETH_USDC/quotes?amount=${amount}`)
    if (answer === undefined) return undefined
    const { headers, body } = answer
    if (answer.status !== 200) return this.#fail(`quote: ${answer.status} ${body.type}`)
    if (String(headers['cache-status']).includes('; hit;'))
      this.#tally.hitMs.push(performance.now() - startedAtMs)
    if (Number(body.expiry) <= sentAtMs)
      this.#tally.expired.push(`${body.id} at ${sentAtMs}`)
    const { value } = body.fromAmount as { value: string }
    if (body.pairId !== 'ETH_USDC' || value !== amount)
      this.#tally.wrong.push(`a quote for ${value}, not ${amount}`)
    return body
  }

  /** An order of 300 bytes for a live quote, in one piece. */
  async order(amount: string): Promise<void> {
    const quote = await this.quote(amount)
    // A quote that ends while the order is on its way is refused rightly.
    if (quote === undefined || Number(quote.expiry) - Date.now() < 3_000) return
    const { id, pairId, toAmount } = quote
    const terms = {
      quoteId: id,
      pairId,
      fromAmount: amount,
      toAmount,
      toAddress: '0xto',
      note: '',
    }
    terms.note = ' '.repeat(Math.max(0, 300 - JSON.stringify(terms).length))
    this.#tally.orders += 1
    const expiresAtMs = Number(quote.expiry)
    const why = await this.#post('/v3/orders/float', JSON.stringify(terms))
    if (why === undefined) return
    if (why.includes('quote-expired') && Date.now() >= expiresAtMs)
      this.#tally.orders -= 1
    else this.#tally.refusedOrders.push(why)
  }

  async pay(): Promise<void> {
    this.#tally.others += 1
    const why = await this.#post(
      '/checkouts',
      JSON.stringify({ amount: '10.00', nonce: randomUUID() }),
    )
    if (why !== undefined) this.#fail(`payment: ${why}`)
  }

  async get(path: string): Promise<void> {
    this.#tally.others += 1
    const answer = await this.#send('GET', path)
    if (answer === undefined) return
    if (answer.status !== 200) this.#fail(`${path}: ${answer.status} ${answer.body.type}`)
    else if (answer.body.path !== path)
      this.#tally.wrong.push(`the answer to ${answer.body.path}, not to ${path}`)
  }

  close(): void {
    this.#agent.destroy()
  }

  /** Returns why it was not accepted. */
  async #post(path: string, text: string): Promise<string | undefined> {
    const id = randomUUID()
    const answer = await this.#send('POST', path, { id, text })
    if (answer === undefined) return 'the connection broke'
    if (answer.status !== 201) return `${answer.status} ${answer.body.type}`
    this.#tally.accepted.push(id)
    if (answer.body.id !== id || answer.body.sent !== text)
      this.#tally.wrong.push(`another client's answer to ${path}`)
    return undefined
  }

  #fail(what: string): undefined {
    this.#tally.failed.set(what, (this.#tally.failed.get(what) ?? 0) + 1)
  }

  #send(
    method: string,
    path: string,
    post?: { id: string; text: string },
  ): Promise<Answer | undefined> {
    const headers: Record<string, string> = { Host: 'gateway', 'App-Name': 'soak' }
    if (post)
      Object.assign(headers, {
        [idHeader]: post.id,
        'Content-Length': String(post.text.length),
      })
    return new Promise((resolve) => {
      const broken = () => {
        if (!post) this.#fail(`${method} ${path.split('?')[0]}: broken off`)
        resolve(undefined)
      }
      const { hostname, port } = this.#url
      const call = request(
        { hostname, port, path, method, headers, agent: this.#agent },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('error', broken)
          response.on('end', () => {
            const body = readJson(Buffer.concat(chunks).toString())
            if (body === undefined) this.#tally.wrong.push(`${method} ${path}: not JSON`)
            resolve(
              body && {
                status: response.statusCode ?? 0,
                headers: response.headers,
                body,
              },
            )
          })
        },
      )
      call.setTimeout(patienceMs, () => {
        this.#tally.forgotten.push(`${method} ${path}`)
        call.destroy(new Error('no answer'))
      })
      call.on('error', broken)
      call.end(post?.text)
    })
  }
}
