import { expect, it } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { ask, giveQuote, quotePath, untilCounted } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { idOf, replicaStage, stored } from '../support/gateways/replicas.ts'

const address = '198.51.100.77'
const secret = 's3cret-key-of-a-client'

/** All that a key holds, as bytes that can be searched. */
async function contentOf(
  ask: (...command: string[]) => Promise<unknown>,
  key: string,
): Promise<string> {
  const commands: Record<string, string[]> = {
    hash: ['HGETALL', key],
    stream: ['XRANGE', key, '-', '+'],
  }
  // One of another type than a string refuses GET.
  return JSON.stringify(
    await ask(...(commands[String(await ask('TYPE', key))] ?? ['GET', key])),
  )
}

it('the store holds no address and no secret of a request, and nothing but the journal without a time to live', {
  tags: ['redis-server'],
}, async () => {
  const { store, upstream, here, there } = await replicaStage(2, {
    TRUST_PROXY: 'loopback',
    VALKEY_KEY_PREFIX: 'stage-1:',
    RATE_LIMIT_PER_MINUTE: '1000',
    RATE_LIMIT_BY: 'both',
  })
  upstream.answer(({ method }, response) => {
    if (method === 'POST') response.writeHead(201).end('{}')
    else giveQuote(response)
  })
  const headers = [
    'App-Name',
    'wallet',
    'Authorization',
    `Bearer ${secret}`,
    'Forwarded',
    `for=${address}`,
    'User-Agent',
    'agent-of-a-client',
  ]
  const path = (amount: number) => `${quotePath}?amount=${amount}&toAddress=0xfeed`
  const ids: string[] = []
  for (let amount = 1; amount <= 5; amount += 1) {
    ids.push(idOf(await ask(here.url, { path: path(amount), headers })))
    await ask(there.url, { path: path(amount), headers })
  }
  await untilCounted(here, stored('quote-set'), 5)
  const ofOrder = [
    'App-Name: wallet',
    `Authorization: Bearer ${secret}`,
    `Forwarded: for=${address}`,
  ]
  await rawExchange(
    here.url,
    post(JSON.stringify({ quoteId: ids[0] }), { headers: ofOrder }),
  )
  await untilCounted(here, stored('quote-forget'), 1)
  await untilCounted(here, stored('journal-append'), 6)

  const keys = (await store.ask('KEYS', '*')) as string[]
  // One of the five was used.
  expect(keys.filter((key) => key.includes('cache:'))).toHaveLength(4)
  for (const key of keys) {
    expect(key).toMatch(/^stage-1:/)
    if (!key.includes('journal:'))
      expect(Number(await store.ask('PTTL', key)), key).toBeGreaterThan(0)
    const all = key + (await contentOf(store.ask, key))
    for (const hidden of [address, secret, 'agent-of-a-client', '0xfeed']) {
      expect(all).not.toContain(hidden)
      expect(all).not.toContain(Buffer.from(hidden).toString('base64url'))
    }
  }
})
