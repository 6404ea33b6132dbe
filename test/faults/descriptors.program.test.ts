import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { maxClientConnections } from '../../src/server/listen.ts'
import {
  get,
  RawConnection,
  rawExchange,
  valuesOf,
} from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'

async function startGatewayProgram(
  settings: Record<string, string> = {},
  descriptors?: number,
) {
  const upstream = await recordingUpstream(({ target }, response) => {
    response.setHeader('Connection', 'close')
    response.end(target)
  })
  const limits = descriptors === undefined ? {} : { descriptors }
  const program = await startListening(
    { SWAP_BASE_URL: upstream.url, ...settings },
    limits,
  )
  return { ...program, program, pid: program.child.pid, upstream }
}

const connectMany = (url: string, count: number) =>
  Array.from({ length: count }, () => new RawConnection(url))

const openDescriptors = (pid: number | undefined) => readdirSync(`/proc/${pid}/fd`).length

function allowDescriptors(pid: number | undefined, most: number): void {
  const { status, stderr } = spawnSync('prlimit', [
    '--pid',
    String(pid),
    `--nofile=${most}:4096`,
  ])
  if (status !== 0) throw new Error(`prlimit: ${stderr}`)
}

/** Time on a processor, in ticks of 10 ms. */
function ticks(pid: number | undefined): number {
  const fields = (readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1] ?? '').split(
    ' ',
  )
  return Number(fields[11]) + Number(fields[12])
}

test('a process with few file descriptors accepts fewer clients, logs that, and answers the others 503', async () => {
  const { program, url, operationsUrl } = await startGatewayProgram({}, 128)
  expect(program.stdout()).toContain(
    'CLIENT_CONNECTIONS=10000 needs more file descriptors',
  )
  connectMany(url, 64)
  await pause(200)
  const refused = await rawExchange(url, get('/v3/pairs'))
  expect([refused.status, valuesOf(refused.rawHeaders, 'retry-after')]).toEqual([
    503,
    ['1'],
  ])
  expect((await rawExchange(operationsUrl, get('/readyz'))).status).toBe(200)
  program.child.kill('SIGTERM')
  expect((await program.exit).code).toBe(0)
})

test('out of descriptors: connected clients are served, a new upstream connection is a 503, and the gateway recovers', {
  tags: ['prlimit'],
}, async () => {
  const { program, pid, url } = await startGatewayProgram({ QUOTE_PARTITION: 'none' })
  const kept = new RawConnection(url, get('/v3/pairs'))
  expect((await kept.answer()).status).toBe(200)
  const many = connectMany(url, 30)
  await until(() => openDescriptors(pid) > 30, 'the connections to be accepted')
  allowDescriptors(pid, openDescriptors(pid))

  const late = connectMany(url, 100)
  const ticksBefore = ticks(pid)
  await pause(1_000)
  // A listener that is woken again and again for what it cannot accept would burn all of it: 100 ticks.
  expect(ticks(pid) - ticksBefore).toBeLessThan(50)

  for (let count = 0; count < 5; count += 1) {
    kept.write(get('/v3/pairs'))
    const answer = await kept.answer()
    expect([answer.status, valuesOf(answer.rawHeaders, 'proxy-status')]).toEqual([
      503,
      ['quotegate; error=connection_limit_reached'],
    ])
    expect(JSON.parse(answer.body.toString())).toMatchObject({ retryable: true })
  }

  for (const { socket } of [...many, ...late]) socket.destroy()
  await until(() => openDescriptors(pid) < 40, 'the connections to be closed')
  // Those that were waiting to be accepted may still take the last descriptors for a moment.
  let status = 0
  for (let tries = 0; tries < 100 && status !== 200; tries += 1) {
    status = (await rawExchange(url, get('/v3/pairs'))).status
    if (status !== 200) await pause(100)
  }
  expect(status).toBe(200)
  kept.write(get('/v3/pairs'))
  expect((await kept.answer()).status).toBe(200)
  program.child.kill('SIGTERM')
  expect((await program.exit).code).toBe(0)
})

// A client that is refused and does not hang up holds a descriptor for as long as the gateway listens to it.
test('a flood of refused connections holds at most a thousand descriptors, and each is answered', async () => {
  const { pid, url } = await startGatewayProgram({ CLIENT_CONNECTIONS: '1' })
  const served = new RawConnection(url, get('/v3/pairs'))
  expect((await served.answer()).status).toBe(200)
  const refused: RawConnection[] = []
  let most = 0
  const watching = setInterval(() => {
    most = Math.max(most, openDescriptors(pid))
  }, 5)
  // No more at once than the backlog of a listener holds: past it the kernel itself drops connections.
  for (let batch = 0; batch < 8; batch += 1) {
    const flood = connectMany(url, 200)
    await Promise.all(
      flood.map(
        ({ socket }) => new Promise((resolve) => socket.once('connect', resolve)),
      ),
    )
    refused.push(...flood)
  }
  await Promise.all(refused.map((connection) => connection.closed()))
  clearInterval(watching)
  expect(served.ended).toBe(false)
  expect(
    refused.filter(({ received }) => !received.includes('too-many-connections')),
  ).toEqual([])
  expect(most).toBeLessThan(1_100)
})

test.each([
  ['Max open files            1048576              1048576              files', 786_432],
  ['Max open files            1024                 524288               files', 768],
  ['Max open files            128                  128                  files', 64],
  ['Max open files            20                   20                   files', 1],
  [
    'Max open files            unlimited            unlimited            files',
    undefined,
  ],
  ['', undefined],
])('with a limit of %j clients may hold %s connections', (limits, connections) =>
  expect(maxClientConnections(limits)).toBe(connections),
)
