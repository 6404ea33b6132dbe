import { createServer, type LookupFunction } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { proxyStatus } from '../support/clients/problems.ts'
import { get, RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import { listening } from '../support/machine/listening.ts'

const post = 'POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}'

/** The addresses of a name, which the test may change. */
function naming(...addresses: string[]) {
  const names = { addresses }
  const lookup: LookupFunction = (_name, _options, callback) =>
    callback(
      null,
      names.addresses.map((address) => ({ address, family: 4 })),
    )
  return { names, lookup }
}

test('a name with several addresses: those that refuse are skipped, for a POST too', async () => {
  const upstream = await recordingUpstream()
  const { lookup } = naming('127.0.0.2', '127.0.0.3', '127.0.0.1')
  const edge = await edgeTo(
    `http://upstream.test:${upstream.port}`,
    { retries: 0 },
    { lookup },
  )
  expect((await rawExchange(edge.url, post)).status).toBe(200)
  expect(edge.outcomes).toEqual(['answered'])
})

// As far away as that, or a process that stood still meanwhile: Node would give it up after 250 ms.
test('a name with several addresses: one that is slow to connect is waited for', async () => {
  const upstream = await recordingUpstream()
  const standStill = () =>
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400)
  const lookup: LookupFunction = (...asked) => {
    naming('127.0.0.1', '127.0.0.2').lookup(...asked)
    // Behind the first try, which Node makes in a tick of its own.
    process.nextTick(() => process.nextTick(standStill))
  }
  const limits = { retries: 0, connectTimeoutMs: 20_000 }
  const edge = await edgeTo(`http://upstream.test:${upstream.port}`, limits, { lookup })
  expect((await rawExchange(edge.url, post)).status).toBe(200)
})

test('a name with several addresses of which none takes a connection is one failure and a 502', async () => {
  const { lookup } = naming('127.0.0.2', '127.0.0.3')
  const edge = await edgeTo('http://upstream.test:9', { retries: 0 }, { lookup })
  const answer = await rawExchange(edge.url, post)
  expect(answer.status).toBe(502)
  expect(proxyStatus(answer)).toBe('quotegate; error=connection_refused')
  expect(edge.outcomes).toEqual(['connection_refused'])
})

// Each question holds one of four threads until the name server's time is up, and the other upstreams need them too.
test('a burst of requests asks for the name once, and all of them get the answer', async () => {
  const upstream = await recordingUpstream()
  const asked: Parameters<LookupFunction>[2][] = []
  const lookup: LookupFunction = (_name, _options, callback) => void asked.push(callback)
  // At the swap API one of its four connections would be for float orders alone.
  const edge = await edgeTo(
    `http://upstream.test:${upstream.port}`,
    { retries: 0 },
    { name: 'payments', lookup },
  )
  async function burst(
    told: (answer: Parameters<LookupFunction>[2]) => void,
  ): Promise<number[]> {
    asked.length = 0
    const answers = Array.from({ length: 4 }, () => rawExchange(edge.url, get()))
    await until(() => edge.upstream.inFlight === 4, 'all of them to wait')
    await pause(50)
    expect(asked).toHaveLength(1)
    for (const answer of asked) told(answer)
    return (await Promise.all(answers)).map(({ status }) => status)
  }
  const noSuchName = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
  expect(await burst((answer) => answer(noSuchName, []))).toEqual([502, 502, 502, 502])
  const found = [{ address: '127.0.0.1', family: 4 }]
  expect(await burst((answer) => answer(null, found))).toEqual([200, 200, 200, 200])
})

test('a change in DNS is followed under constant load once the connections have reached their age', async () => {
  // Two upstreams of one port; each answers with its address.
  let port = 0
  for (const address of ['127.0.0.1', '127.0.0.2']) {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', () =>
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n${address}`),
      )
    })
    port = (await listening(server, port, address)).port
  }
  const { lookup, names } = naming('127.0.0.1')
  const limits = { connections: 4, retries: 0 }
  const edge = await edgeTo(`http://upstream.test:${port}`, limits, {
    lookup,
    connectionLifeMs: 400,
  })
  let running = true
  onTestFinished(() => {
    running = false
  })
  const statuses = new Set<number>()
  const answers: string[] = []
  const load = Array.from({ length: 8 }, async () => {
    const client = new RawConnection(edge.url)
    while (running) {
      client.write(get())
      const answer = await client.answer()
      statuses.add(answer.status)
      answers.push(answer.body.toString())
    }
  })
  await until(() => answers.length > 50, 'the load to run')
  expect(new Set(answers)).toEqual(new Set(['127.0.0.1']))
  names.addresses = ['127.0.0.2']
  // At most twice its age; here it is enough that it comes, and comes for all.
  await until(
    () => answers.slice(-40).every((by) => by === '127.0.0.2'),
    'every connection to be renewed',
  )
  running = false
  await Promise.all(load)
  expect([...statuses]).toEqual([200])
})
