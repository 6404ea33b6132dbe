/** The built program on whatever Node runs this: it starts, serves a quote, refuses a late order, and stops. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createGateway } from '../dist/index.js'
import { startSandbox } from '../dist/sandbox.js'

const sandbox = await startSandbox({ quoteLifetimeMs: 300 })
const settings = {
  SWAP_BASE_URL: sandbox.url,
  PAYMENTS_BASE_URL: sandbox.url,
  PORT: '0',
  ADMIN_PORT: '0',
}

async function tryAt(url) {
  const headers = {
    'App-Name': 'try',
    Authorization: 'Bearer any',
    'Content-Type': 'application/json',
  }
  const quote = await (
    await fetch(`${url}/v3/pairs/ETH_USDC/quotes?amount=0.1`, { headers })
  ).json()
  assert.equal(quote.pairId, 'ETH_USDC')
  while (Date.now() < quote.expiry) await sleep(20)
  const order = {
    pairId: 'ETH_USDC',
    fromAmount: 0.1,
    toAmount: quote.toAmount.value,
    toAddress: '0xto',
  }
  const post = (path, body) => fetch(url + path, { method: 'POST', headers, body })
  assert.equal((await post('/v3/orders/float', JSON.stringify(order))).status, 409)
  assert.equal((await post('/checkouts', '{ "amount": "1.10" }')).status, 201)
  assert.equal(sandbox.requests.at(-1)?.body.toString(), '{ "amount": "1.10" }')
}

const program = spawn(
  process.execPath,
  [fileURLToPath(new URL('../dist/main.js', import.meta.url))],
  {
    env: { ...settings, LOG_FORMAT: 'json' },
    stdio: ['ignore', 'pipe', 'inherit'],
  },
)
const exited = once(program, 'exit')
let log = ''
for await (const text of program.stdout.setEncoding('utf8')) {
  log += text
  const url = /"trafficUrl":"(.+?)"/.exec(log)?.[1]
  if (url === undefined) continue
  await tryAt(url)
  program.kill('SIGTERM')
  break
}
assert.deepEqual(await exited, [0, null])

const gateway = await createGateway(settings)
await tryAt((await gateway.listen()).trafficUrl)
await gateway.close()
await sandbox.close()
process.stdout.write(
  `node ${process.version}: the program and the library serve, refuse what is late, and stop\n`,
)
