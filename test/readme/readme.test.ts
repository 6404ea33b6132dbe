import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { blocksOf, formOf, inlineCommandsOf, linesOf, notRunOf } from './commands.ts'
import { type Copy, copyRepository } from './copy.ts'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const readme = read('README.md')
const blocks = blocksOf(readme)
const shell = blocks.filter(({ language }) => language === 'sh')
const starts = 'starts the gateway'
/** With programs hidden: test/package/repository.test.ts holds .ci/run to it. */
const ranByCi = 'run by scripts/bare.mjs'

let copy: Copy
beforeAll(async () => {
  copy = await copyRepository()
})
afterAll(() => copy.remove())

describe('the commands of the README', () => {
  // In the order of the page: what a later one needs, an earlier one has done.
  const assignments: string[] = []
  test.each(shell.filter(({ mark }) => mark !== ranByCi).map((block) => [block.text.trim(), block] as const))(
    '%s',
    async (_text, block) => {
      if (block.mark === starts) {
        await copy.start(block.text.trim())
        return
      }
      expect(block.mark, 'an unknown mark').toBe('')
      const lines = linesOf(block)
      const isOneOfSeveral = lines.length > 1
      let output = ''
      for (const { command, sets } of lines) {
        if (command === undefined) {
          assignments.push(sets ?? '')
          continue
        }
        expect(command, 'a command that is neither known nor marked').toMatch(/^(?:curl|sleep) /)
        output = await copy.run([...assignments, command].join('\n'))
        if (sets !== undefined) assignments.push(`${sets}='${output.trim()}'`)
        else if (isOneOfSeveral && command.startsWith('curl'))
          expect(output, 'an answer on a line of its own').toMatch(/\n$/)
      }
      const next = blocks[blocks.indexOf(block) + 1]
      if (next?.language === 'json') expect(formOf(output)).toEqual(formOf(next.text))
    },
  )

  test('are in blocks that this test reads', () => {
    const languages = blocks.map(({ language }) => language)
    expect(languages.filter((language) => !['sh', 'json', 'js', 'mermaid'].includes(language))).toEqual([])
    expect(blocks.filter(({ language }) => language === 'json')).toHaveLength(2)
  })

  test('leave testing to .ci/run', () => {
    expect(shell.filter(({ mark }) => mark === ranByCi).map(({ text }) => text)).toEqual([
      'npm ci && npm test\n',
    ])
  })
})

describe('a command within a sentence', () => {
  /** What it says when it does what the sentence is about. */
  const says: Record<string, RegExp> = {
    'npm start -- --help': /QUOTE_PARTITION/,
    'npm start -- --check-config': /The settings are good\./,
    'npm start -- --print-config': /QUOTE_PARTITION=ip {2}\(default\)/,
  }
  const commands = inlineCommandsOf(readme).filter((command) => !notRunOf(readme).includes(command))

  test.each(commands)('%s', async (command) => {
    expect(says[command], 'a command that is neither known nor marked').toBeDefined()
    expect(await copy.run(command)).toMatch(says[command] ?? /^$/)
  })

  test('is known because it occurs', () => {
    expect(commands.sort()).toEqual(Object.keys(says).sort())
  })
})

describe('the library example', () => {
  const examples = blocks.filter(({ language }) => language === 'js').map(({ text }) => text)

  test.each(examples)('%s', async (example) => {
    const rest = `
      const { trafficUrl } = await gateway.listen()
      const quote = await fetch(trafficUrl + '/v3/pairs/ETH_USDC/quotes?amount=0.1', { headers: { 'App-Name': 'demo' } })
      process.stdout.write(String(quote.status))
      await gateway.close()
      await sandbox.close()`
    writeFileSync(join(copy.directory, 'example.mjs'), example + rest)
    expect(await copy.run('node example.mjs')).toBe('200')
  })

  test('exists', () => {
    expect(examples).toHaveLength(1)
  })
})
