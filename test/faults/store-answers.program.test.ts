import { connect, createServer, type Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { ask, asking, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayWith, recordingUpstream } from '../support/gateways/between.ts'
import { listening } from '../support/machine/listening.ts'
import { valkey } from '../support/stores/valkey.ts'

/** The address of a server that does this with each connection. */
async function storeThat(serves: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) =>
    serves(socket.on('error', () => socket.destroy())),
  )
  return `redis://127.0.0.1:${(await listening(server)).port}`
}

/**
 * A store that answers all scripts alike, as one does behind a proxy that has lost count of its answers. But that of the
 * journal is answered as where nothing was appended, with the id of its call, which is its last parameter.
 */
function storeThatSays(scriptAnswer: string): Promise<string> {
  const answerTo = (command: string) => {
    const callId = /:journal:.*\r\n(\S+)\r\n$/s.exec(command)?.[1]
    const [, name = ''] = /\r\n(evalsha|eval|info|xadd)\r\n/i.exec(command) ?? []
    if (name.startsWith('eval') && callId !== undefined)
      return `*2\r\n$${callId.length}\r\n${callId}\r\n*4\r\n:1\r\n:0\r\n:0\r\n$3\r\n0-0\r\n`
    return answers[name.toLowerCase()] ?? scriptAnswer
  }
  return storeThat((socket) => {
    // Commands come whole here.
    socket.on('data', (bytes) => {
      for (const command of bytes.toString('latin1').split(/(?=\*\d+\r\n\$\d+\r\n)/))
        socket.write(answerTo(command))
    })
  })
}

const answers: Record<string, string> = { info: '$-1\r\n', xadd: '$3\r\n1-1\r\n' }

async function quoteUpstream(): Promise<string> {
  const expiry = Date.now() + 60_000
  const { url } = await recordingUpstream((request, response) => {
    if (request.method === 'POST') return void response.writeHead(201).end('{}')
    const pairId = request.target.split('/')[3]
    const id = `q-${request.target}`
    giveQuote(response, quoteBody({ id, pairId, expiry }))
  })
  return url
}

async function upWithStore(
  urls: { SWAP_BASE_URL: string; VALKEY_URL: string },
  settings = {},
) {
  const gateway = await gatewayWith({ ...urls, VALKEY_TIMEOUT_MS: '5000', ...settings })
  const isUp = () =>
    expect.poll(gateway.metrics, { timeout: 10_000 }).toMatch(/^quotegate_store_up 1$/m)
  await isUp()
  return { ...gateway, isUp }
}

/** With a limit the first answer of the store that a request needs is that to the limit's script. */
describe.each(['0', '1000'])(
  'with RATE_LIMIT_PER_MINUTE=%s, a store whose answers are those to something else fails no quote and no order:',
  (RATE_LIMIT_PER_MINUTE) => {
    it.each([
      ['a number', ':1\r\n'],
      ['nothing', '*-1\r\n'],
      ['an empty list', '*0\r\n'],
      ['a word', '+OK\r\n'],
      ['three words', '*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n'],
      ['numbers', '*3\r\n:1\r\n:2\r\n:3\r\n'],
      ['lists within a list', '*2\r\n*0\r\n$-1\r\n'],
    ])('%s', async (_what, scriptAnswer) => {
      const urls = {
        SWAP_BASE_URL: await quoteUpstream(),
        VALKEY_URL: await storeThatSays(scriptAnswer),
      }
      const { isUp, url } = await upWithStore(urls, { RATE_LIMIT_PER_MINUTE })
      for (const amount of ['1', '2']) {
        expect((await asking(url, amount)).status).toBe(200)
        await isUp()
        const order = {
          quoteId: 'of-another-replica',
          pairId: 'ETH_USDC',
          fromAmount: Number(amount),
        }
        expect((await rawExchange(url, post(JSON.stringify(order)))).status).toBe(201)
        await isUp()
      }
    })
  },
)

/** A line to the store on which, once, before the answer that holds `before` that which held `first` comes again. */
function lineThatRepeats(port: number, first: string, before: string): Promise<string> {
  let kept: Buffer | undefined
  return storeThat((near) => {
    const far = connect(port, '127.0.0.1')
    far.on('error', () => far.destroy())
    near.on('close', () => far.destroy()).pipe(far)
    far.on('data', (bytes) => {
      if (bytes.includes(first)) kept = bytes
      if (bytes.includes(before) && kept !== undefined) {
        near.write(kept)
        kept = undefined
      }
      near.write(bytes)
    })
  })
}

it('a store that sends one answer twice does not make a replica serve the quote of another pair', {
  tags: ['redis-server'],
}, async () => {
  const store = await valkey()
  const line = await lineThatRepeats(store.port, 'ETH_USDC/quotes', 'BTC_USDC/quotes')
  const SWAP_BASE_URL = await quoteUpstream()
  for (const VALKEY_URL of [store.url, line]) {
    const { url } = await upWithStore({ SWAP_BASE_URL, VALKEY_URL })
    for (const pairId of ['ETH_USDC', 'BTC_USDC']) {
      const { body } = await ask(url, { path: `/v3/pairs/${pairId}/quotes?amount=0.1` })
      expect(JSON.parse(body)).toMatchObject({ pairId })
    }
  }
})
