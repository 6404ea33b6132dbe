import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { startSandbox } from '../src/sandbox/sandbox.ts'
import { blocksOf } from './readme/commands.ts'
import { gatewayTo } from './support/gateways/between.ts'

const page = readFileSync(new URL('../docs/quick-start.md', import.meta.url), 'utf8')
const urlInPage = 'http://127.0.0.1:8080'
/** The moment at which the page was written: prices and times follow from it. */
const startMs = Date.UTC(2026, 10, 24, 10)

const id =
  /[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b(?:chk_)?[a-z]{24}\b|(?<="payInAddressTag":")\d{6}/g

/** The text with a number in place of each id; an id that was seen before has the number that it had. */
function numbered(text: string, seen: string[]): string {
  return text.replaceAll(id, (found) => {
    if (!seen.includes(found)) seen.push(found)
    return `<${seen.indexOf(found)}>`
  })
}

/** A shell that stays open, as a terminal does: what one block sets, the next one has. */
function openShell() {
  const shell = spawn('sh', { stdio: ['pipe', 'pipe', 'inherit'] })
  const end = 'end-of-block'
  let written = ''
  shell.stdout.on('data', (data: Buffer) => {
    written += data.toString()
    shell.emit('written')
  })
  return {
    async run(commands: string): Promise<string> {
      written = ''
      shell.stdin.write(`${commands}\necho ${end}\n`)
      while (!written.endsWith(`${end}\n`)) await once(shell, 'written')
      return written.slice(0, -`${end}\n`.length)
    },
    async [Symbol.asyncDispose]() {
      shell.stdin.end()
      await once(shell, 'exit')
    },
  }
}

/** Time stands still, but for what a `sleep` of the page lets pass. */
async function stage() {
  const clock = { ms: startMs, nowMs: () => clock.ms }
  const sandbox = await startSandbox({ clock })
  onTestFinished(() => sandbox.close())
  const { url } = await gatewayTo(sandbox.url, {}, { clock })
  return { clock, url }
}

test('the answers in the quick start are those of the gateway and its sandbox', {
  tags: ['curl'],
}, async () => {
  const { clock, url } = await stage()
  const [start, preparations, ...blocks] = blocksOf(page)
  expect(start?.text).toBe('npm ci && npm start\n')
  const idsInPage: string[] = []
  const idsHere: string[] = []

  const commands = blocks.filter(({ language }) => language === 'sh')
  expect(commands.length).toBeGreaterThan(8)
  expect(commands.filter(({ text }) => text.match(id))).toEqual([])
  await using shell = openShell()
  expect(await shell.run(String(preparations?.text.replace(urlInPage, url)))).toBe('')
  for (const block of commands) {
    const [, seconds = '0', command = ''] =
      /^(?:sleep (\d+)\n)?([\s\S]*)$/.exec(block.text) ?? []
    clock.ms += Number(seconds) * 1000
    const output = await shell.run(command)
    const shown = blocks[blocks.indexOf(block) + 1]
    expect(shown?.language).toMatch(/^(?:json|text)$/)
    // With its last line ended, or the shell's prompt would follow it.
    expect(numbered(output, idsHere)).toBe(numbered(shown?.text ?? '', idsInPage))
  }
})
