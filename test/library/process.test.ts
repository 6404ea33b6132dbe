import { expect, test } from 'vitest'
import { outcomeOf } from '../support/gateways/library-program.ts'

// A test runner that waits for the process to end would wait forever.
test.each([
  ['dropped', ''],
  ['used and dropped', 'await use()'],
  ['used and closed', 'await use(); await gateway.close()'],
  ['listening and closed', 'await gateway.listen(); await gateway.close()'],
])('a process ends by itself with a gateway that was %s', async (_what, then) => {
  const { code, output } = await outcomeOf(`
    import { createServer } from 'node:http'
    const gateway = await createGateway({ PORT: 0, ADMIN_PORT: 0, RATE_LIMIT_PER_MINUTE: 100 })
    const use = async () => {
      const server = createServer(gateway.listener).listen(0)
      const url = 'http://127.0.0.1:' + server.address().port
      const headers = { 'App-Name': 'tests', Connection: 'close' }
      const answers = [fetch(url + '/v3/pairs/ETH_USDC/quotes?amount=0.1', { headers }), fetch(url + '/v3/pairs', { headers })]
      console.log((await Promise.all(answers)).map(({ status }) => status).join())
      server.close()
    }
    ${then}
    console.log('done')
  `)
  expect([code, output]).toEqual([0, `${then.includes('use') ? '200,200\n' : ''}done\n`])
})
