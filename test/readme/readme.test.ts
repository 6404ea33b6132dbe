import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { blocksOf, formOf, inlineCommandsOf, linesOf, notRunOf } from './commands.ts'
import { type Copy, copyRepository } from './copy.ts'

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
const blocks = blocksOf(readme)
const inLanguage = (name: string) => blocks.filter(({ language }) => language === name)
/** With programs hidden: test/package/repository.test.ts holds .ci/run to it. */
const ranByCi = 'run by scripts/bare.mjs'
const runHere = inLanguage('sh').filter(({ mark }) => mark !== ranByCi)

let copy: Copy
beforeAll(async () => {
  copy = await copyRepository()
})
afterAll(() => copy.remove())

// In the order of the page: what a later one needs, an earlier one has done.
const assignments: string[] = []
test.each(runHere.map((block) => [block.text.trim(), block] as const))(
  'a command does what the README says: %s',
  async (text, block) => {
    if (block.mark === 'starts the gateway') return copy.start(text)
    if (block.mark === 'checks and starts the gateway') {
      const [, check = ''] = /^([\s\S]+)\nnpm start$/.exec(text) ?? []
      const shown = blocks[blocks.indexOf(block) + 1]?.text ?? ''
      expect(counted(await copy.run(check))).toEqual(counted(shown))
      return copy.start(text)
    }
    expect(block.mark, 'an unknown mark').toBe('')
    const lines = linesOf(block)
    let output = ''
    for (const { command, sets } of lines) {
      if (command === undefined) {
        assignments.push(sets ?? '')
        continue
      }
      expect(command, 'a command that is neither known nor marked').toMatch(
        /^(?:curl|sleep) /,
      )
      output = await copy.run([...assignments, command].join('\n'))
      if (sets !== undefined) assignments.push(`${sets}='${output.trim()}'`)
      else if (lines.length > 1 && command.startsWith('curl'))
        expect(output, 'an answer on a line of its own').toMatch(/\n$/)
    }
    const next = blocks[blocks.indexOf(block) + 1]
    if (next?.language === 'json') expect(formOf(output)).toEqual(formOf(next.text))
  },
)

/** The lines of a check. What V8 leaves the process, and with it the count, depends on the machine. */
function counted(text: string): string[] {
  // npm says first what it runs.
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('> '))
  const last = lines.at(-1) ?? ''
  expect(last).toBe(
    `No setting is wrong. No warnings, ${of(lines, 'open')} open, ${of(lines, 'check')} to check yourself.`,
  )
  return lines.slice(0, -1).map((line) => line.replace(/^ {2}(?:done|open) +V8/, '  V8'))
}

function of(lines: readonly string[], mark: string): number {
  return lines.filter((line) => line.startsWith(`  ${mark} `)).length
}

test('all blocks are such as this test reads, and testing is left to .ci/run', () => {
  const known = ['sh', 'json', 'js', 'text']
  expect(blocks.filter(({ language }) => !known.includes(language))).toEqual([])
  expect([inLanguage('js').length, inLanguage('json').length]).toEqual([1, 2])
  const ofCi = inLanguage('sh').filter((block) => !runHere.includes(block))
  expect(ofCi.map(({ text }) => text)).toEqual(['npm ci && npm test\n'])
})

test('a command within a sentence does what the sentence is about', async () => {
  const says: Record<string, RegExp> = {
    'npm start -- --help': /^ {2}QUOTE_PARTITION .* share a cached quote$/m,
    'npm start -- --print-config': /QUOTE_PARTITION=ip {2}\(default\)/,
  }
  const commands = inlineCommandsOf(readme).filter(
    (command) => !notRunOf(readme).includes(command),
  )
  expect(commands.sort()).toEqual(Object.keys(says).sort())
  for (const command of commands)
    expect(await copy.run(command)).toMatch(says[command] ?? /^$/)
})

test('is read in ten minutes: at most 150 lines', () => {
  expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(150)
})

test('the library example runs', async () => {
  const rest = `
    const { trafficUrl } = await gateway.listen()
    const quote = await fetch(trafficUrl + '/v3/pairs/ETH_USDC/quotes?amount=0.1', { headers: { 'App-Name': 'demo' } })
    process.stdout.write(String(quote.status))
    await gateway.close()
    await sandbox.close()`
  writeFileSync(
    join(copy.directory, 'example.mjs'),
    inLanguage('js')
      .map(({ text }) => text)
      .join('') + rest,
  )
  expect(await copy.run('node example.mjs')).toBe('200')
})
