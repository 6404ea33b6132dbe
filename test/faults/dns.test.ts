import { type AddressInfo, createServer, type LookupFunction, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'
import { type Edge, edgeTo } from '../support/gateways/edge.ts'

const get = (path = '/') => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`
const post = 'POST / HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}'

/** A name whose addresses the test decides, and how often it was asked for. */
function zone(addresses: string[]): { lookup: LookupFunction; set(next: string[]): void; asked(): number } {
  let current = addresses
  let asked = 0
  return {
    lookup(_name, options, callback) {
      asked += 1
      const found = current.map((address) => ({ address, family: 4 }))
      if (options.all) callback(null, found)
      else callback(null, found[0]?.address ?? '', 4)
    },
    set: (next) => {
      current = next
    },
    asked: () => asked,
  }
}

/** Two upstreams of one name and port at 127.0.0.1 and 127.0.0.2; each answers with its address. */
async function twoUpstreams(): Promise<number> {
  const answering = (address: string) => (socket: Socket) => {
    socket.on('error', () => {})
    socket.on('data', () => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n${address}`))
  }
  const open = new Set<Socket>()
  let port = 0
  for (const address of ['127.0.0.1', '127.0.0.2']) {
    const server = createServer(answering(address)).on('connection', (socket) => open.add(socket))
    await new Promise<void>((resolve) => server.listen(port, address, resolve))
    port = (server.address() as AddressInfo).port
    onTestFinished(() => {
      for (const socket of open) socket.destroy()
      server.close()
    })
  }
  return port
}

async function answeredBy(edge: Edge): Promise<string> {
  return (await rawExchange(edge.url, get())).body.toString()
}

test('a name with several addresses: those that refuse are skipped, for a POST too', async () => {
  const upstream = await recordingUpstream()
  const names = zone(['127.0.0.2', '127.0.0.3', '127.0.0.1'])
  const edge = await edgeTo(`http://upstream.test:${upstream.port}`, { retries: 0 }, { lookup: names.lookup })
  expect((await rawExchange(edge.url, get())).status).toBe(200)
  await rawExchange(edge.url, get('/last'))
  expect((await rawExchange(edge.url, post)).status).toBe(200)
  expect(edge.outcomes).toEqual(['answered', 'answered', 'answered'])
})

// As far away as that, or a process that stood still meanwhile: Node would give it up after 250 ms.
test('a name with several addresses: one that is slow to connect is waited for', async () => {
  const upstream = await recordingUpstream()
  const addresses = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }))
  const lookup: LookupFunction = (_name, _options, callback) => {
    callback(null, addresses)
    // Behind the first try, which Node makes in a tick of its own.
    process.nextTick(() => process.nextTick(standStill, 400))
  }
  const limits = { retries: 0, connectTimeoutMs: 20_000 }
  const edge = await edgeTo(`http://upstream.test:${upstream.port}`, limits, { lookup })
  expect((await rawExchange(edge.url, post)).status).toBe(200)
})

function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

test('a name with several addresses of which none takes a connection is one failure and a 502', async () => {
  const names = zone(['127.0.0.2', '127.0.0.3'])
  const edge = await edgeTo('http://upstream.test:9', { retries: 0 }, { lookup: names.lookup })
  const answer = await rawExchange(edge.url, post)
  expect(answer.status).toBe(502)
  expect(proxyStatus(answer)).toBe('quotegate; error=connection_refused')
  expect(edge.outcomes).toEqual(['connection_refused'])
})

test.each(['ENOTFOUND', 'EAI_AGAIN'])(
  'a name that does not resolve (%s) is a 502 that may be sent again',
  async (code) => {
    const lookup: LookupFunction = (_name, _options, callback) => {
      callback(Object.assign(new Error('no such name'), { code }), [])
    }
    const edge = await edgeTo('http://upstream.test', {}, { lookup })
    const answer = await rawExchange(edge.url, post)
    expect(JSON.parse(answer.body.toString())).toMatchObject({ status: 502, retryable: true })
    expect(proxyStatus(answer)).toBe('quotegate; error=dns_error')
  },
)

test('a name server that does not answer is a 504 after connectTimeoutMs', async () => {
  const edge = await edgeTo('http://upstream.test', { connectTimeoutMs: 300 }, { lookup: () => {} })
  const answer = await rawExchange(edge.url, post)
  expect(answer.status).toBe(504)
  expect(proxyStatus(answer)).toBe('quotegate; error=connection_timeout')
  await until(() => edge.upstream.inFlight === 0, 'it to have ended')
})

// Each question holds one of four threads until the name server's time is up, and the other upstreams need them too.
test('a burst of requests asks for the name once, and all of them get the answer', async () => {
  const upstream = await recordingUpstream()
  const asked: Parameters<LookupFunction>[2][] = []
  const lookup: LookupFunction = (_name, _options, callback) => void asked.push(callback)
  // On the swap side one of its four connections would be for float orders alone.
  const edge = await edgeTo(
    `http://upstream.test:${upstream.port}`,
    { retries: 0 },
    { name: 'payments', lookup },
  )
  async function burst(told: (answer: Parameters<LookupFunction>[2]) => void): Promise<number[]> {
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

test('a host that connects and then never speaks TLS is a 504 after connectTimeoutMs', async () => {
  const upstream = await rawUpstream(() => {})
  const edge = await edgeTo(`https://127.0.0.1:${upstream.port}`, { connectTimeoutMs: 300 })
  const answer = await rawExchange(edge.url, post)
  expect(JSON.parse(answer.body.toString())).toMatchObject({ status: 504, retryable: true })
  expect(proxyStatus(answer)).toBe('quotegate; error=connection_timeout')
  expect(edge.retries).toBe(0)
})

test('a change in DNS is followed under constant load once the connections have reached their age', async () => {
  const port = await twoUpstreams()
  const names = zone(['127.0.0.1'])
  const edge = await edgeTo(
    `http://upstream.test:${port}`,
    { connections: 4, retries: 0 },
    { lookup: names.lookup, connectionLifeMs: 400 },
  )
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
  names.set(['127.0.0.2'])
  // At most twice its age; here it is enough that it comes, and comes for all.
  await until(() => answers.slice(-40).every((by) => by === '127.0.0.2'), 'every connection to be renewed')
  running = false
  await Promise.all(load)
  expect([...statuses]).toEqual([200])
})

test('connections are kept for their whole allowed age: no name is looked up meanwhile', async () => {
  const port = await twoUpstreams()
  const names = zone(['127.0.0.1'])
  const edge = await edgeTo(`http://upstream.test:${port}`, {}, { lookup: names.lookup })
  await answeredBy(edge)
  names.set(['127.0.0.2'])
  for (let count = 0; count < 20; count += 1) expect(await answeredBy(edge)).toBe('127.0.0.1')
  expect(names.asked()).toBe(1)
})

test('a request in flight may outlast the age of its connection', async () => {
  const upstream = await recordingUpstream(async (request, response) => {
    response.write('begin ')
    if (request.target === '/long') await pause(600)
    response.end('end')
  })
  const edge = await edgeTo(upstream.url, { connections: 2, retries: 0 }, { connectionLifeMs: 50 })
  const long = rawExchange(edge.url, get('/long'))
  for (let count = 0; count < 20; count += 1) {
    expect((await rawExchange(edge.url, get('/short'))).body.toString()).toBe('begin end')
    await pause(20)
  }
  expect((await long).body.toString()).toBe('begin end')
  expect(edge.outcomes).toEqual(Array(21).fill('answered'))
})

test.each([1, 3])(
  'after a silence every connection is too old, and a request is still answered (%i of them)',
  async (connections) => {
    // undici's Pool with clientTtl leaves it waiting until the next request comes.
    const upstream = await recordingUpstream(async (_request, response) => {
      await pause(20)
      response.end('ok')
    })
    const edge = await edgeTo(upstream.url, { connections, retries: 0 }, { connectionLifeMs: 100 })
    await Promise.all(Array.from({ length: connections }, () => rawExchange(edge.url, get())))
    await pause(200)
    expect((await rawExchange(edge.url, get())).status).toBe(200)
  },
)

test('the answer to a name that does not resolve does not contain the name', async () => {
  const gateway = await gatewayTo('http://secret-host.invalid')
  const answer = await rawExchange(gateway.url, get('/checkouts'))
  expect(expectProblem(answer, 502, 'upstream-unreachable').retryable).toBe(true)
  expect(proxyStatus(answer)).toBe('quotegate; error=dns_error')
  expect(answer.body.toString() + answer.rawHeaders.join()).not.toContain('secret-host')
})
