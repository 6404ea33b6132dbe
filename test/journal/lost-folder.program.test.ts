import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { giveQuote, quotePath } from '../support/clients/quotes.ts'
import { get, rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { startListening } from '../support/gateways/program.ts'
import { appendAll, fileName, newFolder, noteds, opened, textOf } from './disk-support.ts'

const body = '{"pairId":"ETH_USDC","fromAmount":"0.1","toAddress":"0xab"}'
const quote = `GET ${quotePath}?amount=0.1 HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n`

/** Processes over one folder, before a provider that counts what is sent for a key. */
async function stage() {
  const parent = newFolder()
  const folder = join(parent, 'state')
  const upstream = await recordingUpstream(({ target, headers }, response) => {
    if (target.includes('/quotes')) giveQuote(response)
    else response.writeHead(201).end(`{"for":"${headers['idempotency-key']}"}`)
  })
  const sent = (key: string) =>
    upstream.requests.filter(({ headers }) => headers['idempotency-key'] === key).length

  async function start(directory = folder) {
    const program = await startListening({
      STATE_DIRECTORY: directory,
      SWAP_BASE_URL: upstream.url,
    })
    const { child, exit, operationsUrl, stdout, url } = program
    return {
      url,
      async end(signal: 'SIGKILL' | 'SIGTERM') {
        child.kill(signal)
        await exit
      },
      stop: () => child.kill('SIGSTOP'),
      goOn: () => child.kill('SIGCONT'),
      says: (what: string) => stdout().includes(what),
      click: (key: string) =>
        rawExchange(
          url,
          post(body, { headers: ['App-Name: wallet', `Idempotency-Key: ${key}`] }),
        ),
      quote: () => rawExchange(url, quote),
      isUp: async () => {
        const { body: page } = await rawExchange(operationsUrl, get('/metrics'))
        return page.includes('quotegate_journal_up{part="disk"} 1')
      },
    }
  }
  return { folder, parent, sent, start }
}

type Running = Awaited<ReturnType<Awaited<ReturnType<typeof stage>>['start']>>

/** What has become of the folder of a running process. */
const losses: Record<string, (folder: string) => void> = {
  'was removed': (folder) => rmSync(folder, { recursive: true }),
  'was emptied': (folder) => {
    for (const name of readdirSync(folder)) rmSync(join(folder, name))
  },
  'was removed and made again': (folder) => {
    rmSync(folder, { recursive: true })
    mkdirSync(folder)
  },
  'has lost its lock alone': (folder) => rmSync(join(folder, 'lock')),
  'has lost its file alone': (folder) => rmSync(join(folder, fileName)),
  'has another file in the place of its own': (folder) => {
    rmSync(join(folder, fileName))
    writeFileSync(join(folder, fileName), 'not ours')
  },
}

async function begun(running: Running): Promise<void> {
  expect((await running.quote()).status).toBe(200)
  expect((await running.click('before')).status).toBe(201)
}

/** The lines of the file that say something of quotes. */
const quotesIn = (folder: string) =>
  existsSync(join(folder, fileName))
    ? textOf(folder)
        .split('\n')
        .filter((line) => /^\[\d+,"[nu]"/.test(line))
    : []

describe.each(Object.entries(losses))('a folder that %s', (how, lose) => {
  test('is an outage, and made again from memory: after kill -9 no click is sent twice', async () => {
    const { folder, sent, start } = await stage()
    const first = await start()
    await begun(first)
    await until(
      () => quotesIn(folder).length === 2,
      'the quote and its use to be written',
    )
    lose(folder)
    await until(() => first.says('STATE_DIRECTORY is written to again'), 'the folder')
    expect(first.says('STATE_DIRECTORY cannot be written to')).toBe(true)
    expect(await first.isUp()).toBe(true)
    // The quote and its use, each once.
    expect(quotesIn(folder)).toHaveLength(2)
    // Without its cache key, which would say who asked for what.
    expect(quotesIn(folder).join('\n')).toMatch(/"n",.*"ETH_USDC",.*,"",\d+\]/)
    expect(readdirSync(folder).some((name) => name.startsWith('set-aside'))).toBe(
      how.startsWith('has another file'),
    )
    expect((await first.click('after')).status).toBe(201)
    // The lock is there, too.
    await expect(start()).rejects.toThrow()
    await first.end('SIGKILL')

    const second = await start()
    for (const key of ['before', 'after'])
      expect((await second.click(key)).body.toString()).toBe(`{"for":"${key}"}`)
    expect([sent('before'), sent('after')]).toEqual([1, 1])
  })
})

test('a folder that was put in the place of another keeps what it had: its keys count, its quotes are set aside', async () => {
  const { folder, parent, sent, start } = await stage()
  const other = join(parent, 'other')
  const owner = await start(other)
  expect((await owner.quote()).status).toBe(200)
  expect((await owner.click('of-the-other')).status).toBe(201)
  await owner.end('SIGTERM')

  const first = await start()
  await begun(first)
  renameSync(folder, join(parent, 'was'))
  renameSync(other, folder)
  await until(() => first.says('STATE_DIRECTORY is written to again'), 'the folder')
  expect(readdirSync(folder).filter((name) => name.startsWith('set-aside'))).toHaveLength(
    1,
  )
  expect((await first.click('of-the-other')).body.toString()).toBe(
    '{"for":"of-the-other"}',
  )
  await first.end('SIGKILL')
  const second = await start()
  for (const key of ['before', 'of-the-other'])
    expect((await second.click(key)).status).toBe(201)
  expect([sent('before'), sent('of-the-other')]).toEqual([1, 1])
})

describe('a process that ends before it has looked', () => {
  /** A folder with a key of its own, and beside it another one. */
  async function folders() {
    const parent = newFolder()
    const paths = ['state', 'other', 'was'].map((name) => join(parent, name))
    const [folder = '', other = '', was = ''] = paths
    await claimIn(other, 'of-the-other')
    const first = await claimIn(folder, 'before', { isLeftOpen: true })
    return { folder, other, was, first }
  }

  async function claimIn(path: string, key: string, { isLeftOpen = false } = {}) {
    const running = await opened(path)
    running.keys.kept.set(key, '"claimed"')
    await running.journal.keeper.claim(key, '"claimed"')
    await appendAll(running, noteds(0, 3))
    if (!isLeftOpen) await running.journal.close()
    return running
  }

  test('keeps the keys of a folder that was put in the place of its own', async () => {
    const { folder, other, was, first } = await folders()
    renameSync(folder, was)
    renameSync(other, folder)
    await first.journal.close()
    const { keys, journal } = await opened(folder)
    expect([...keys.kept.keys()].sort()).toEqual(['before', 'of-the-other'])
    expect(journal.facts.setAside).toBe(1)
  })

  test('keeps the keys of a file that was put in the place of its own', async () => {
    const { folder, other, first } = await folders()
    renameSync(join(other, fileName), join(folder, fileName))
    await first.journal.close()
    const { keys, journal } = await opened(folder)
    expect([...keys.kept.keys()].sort()).toEqual(['before', 'of-the-other'])
    expect(journal.facts.setAside).toBe(1)
  })
})

test('where another process has the new folder, the disk is away, nothing of that process is touched, and orders are sent', async () => {
  const { folder, sent, start } = await stage()
  const first = await start()
  await begun(first)
  // So that it takes the new folder before the first one looks.
  first.stop()
  rmSync(folder, { recursive: true })
  const second = await start()
  expect((await second.click('of-the-second')).status).toBe(201)
  first.goOn()
  await until(() => first.says('is in use by another process'), 'the line')
  expect(await first.isUp()).toBe(false)
  const before = fingerprint(folder)
  expect((await first.click('meanwhile')).status).toBe(201)
  expect((await first.click('meanwhile')).status).toBe(201)
  await first.quote()
  // More than one look, and one further try.
  await pause(3_500)
  expect(fingerprint(folder)).toEqual(before)
  expect(await first.isUp()).toBe(false)

  // Once that process has ended, its keys are taken over.
  await second.end('SIGKILL')
  await until(() => first.says('STATE_DIRECTORY is written to again'), 'the folder')
  await first.end('SIGKILL')
  const third = await start()
  for (const key of ['before', 'meanwhile', 'of-the-second'])
    expect((await third.click(key)).status).toBe(201)
  expect([sent('before'), sent('meanwhile'), sent('of-the-second')]).toEqual([1, 1, 1])
})

test('a process that ends while another has its folder leaves the lock of that one alone', async () => {
  const { folder, start } = await stage()
  const first = await start()
  await begun(first)
  first.stop()
  rmSync(folder, { recursive: true })
  await start()
  first.goOn()
  await until(() => first.says('is in use by another process'), 'the line')
  await first.end('SIGTERM')
  expect(existsSync(join(folder, 'lock'))).toBe(true)
  await expect(start()).rejects.toThrow()
})

test('while the folder cannot be made again orders with a key are sent, and their keys are written once it can', async () => {
  const { folder, sent, start } = await stage()
  const first = await start()
  await begun(first)
  rmSync(folder, { recursive: true })
  writeFileSync(folder, 'a file in the way')
  await until(() => first.says('STATE_DIRECTORY cannot be written to'), 'the line')
  expect(await first.isUp()).toBe(false)
  expect((await first.click('meanwhile')).status).toBe(201)
  rmSync(folder)
  await until(() => first.says('STATE_DIRECTORY is written to again'), 'the folder')
  await first.end('SIGKILL')
  const second = await start()
  for (const key of ['before', 'meanwhile'])
    expect((await second.click(key)).status).toBe(201)
  expect([sent('before'), sent('meanwhile')]).toEqual([1, 1])
})

function fingerprint(folder: string) {
  return readdirSync(folder)
    .sort()
    .map((name) => {
      const { ino, size, mtimeMs } = statSync(join(folder, name))
      return [name, ino, size, mtimeMs]
    })
}
