import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { hitsIn } from '../../scripts/words/hits.ts'
import { rules } from '../../scripts/words/list.ts'

const found = (path: string, text: string) => hitsIn(path, text).map((hit) => `${hit.line}: ${hit.found}`)

describe('the check of words finds', () => {
  it('a comment, with its line and what to write instead', () => {
    const text = 'const a = 1\n\n// It was mended.\nconst b = 2\n'
    expect(hitsIn('src/a.ts', text)).toEqual([{ path: 'src/a.ts', line: 3, found: 'mended', write: 'fix' }])
  })

  it.each([
    ['a line comment', '// nobody asks', '1: nobody'],
    ['a comment behind code', 'const a = 1 // asked in vain', '1: in vain'],
    ['a documenting comment', '/**\n * Somebody asks.\n */\nexport const a = 1', '2: Somebody'],
    ['a noun that is missing', '// A node that is none is skipped.', '1: is none'],
    ['a string', "log.warn('the quote was fetched anew')", '1: anew'],
    ['a title of a test', "test('refuses nobody', () => {})", '1: nobody'],
    ['a template', 'const a = `the client is told §{b} of it`', '1: is told'],
    ['a part of a template behind code', 'const a = `the client §{b} is told so`', '1: is told'],
    ['a string in the code of a template', "const a = `§{b ? 'kept for ever' : c}`", '1: for ever'],
    [
      'a phrase across two lines of a comment',
      '/**\n * The client is\n * told so.\n */\nexport const a = 1',
      '2: is told',
    ],
  ])('%s', (_what, text, hit) => {
    expect(found('src/a.ts', text.replace('§', '$'))).toEqual([hit])
  })

  it.each([
    ['docs/a.md', '# Title\n\nIt is no number.\n', '3: is no'],
    ['src/operations/console/index.html', '<p>Nothing that\nsomebody asked for.</p>', '2: somebody'],
    ['grafana/alerts.yml', 'a: 1\nsummary: Nobody scrapes it.\n', '2: Nobody'],
    ['scripts/a.sh', '#!/bin/sh\n# Whoever runs it.\n', '2: Whoever'],
    ['.ci/run', 'a=1\n# Whoever runs it.\n', '2: Whoever'],
  ])('text in %s', (path, text, hit) => {
    expect(found(path, text)).toEqual([hit])
  })
})

describe('the check of words accepts', () => {
  it.each([
    ['identifiers', 'const nobody = anew.strangers(whoever)\nfunction reckon(): void {}'],
    ['properties and regular expressions', 'const a = { mended: /is no number/ }'],
    ['names in strings', "headers['x-nobody'] = 'anew'\nimport './strangers.ts'"],
    ['code in the middle of a template', 'const a = `the answer §{nobody.mended} is there`'],
    ['code in a comment', '// Calls `anew()` first.'],
    ['none, of things that there are not', '// undefined if there is none; it was none of these'],
    ['no longer, and there is no', '// It is no longer sent, because there is no queue.'],
    ['an idiom', '// Nothing is taken for granted.'],
    [
      'words that contain one of the list',
      '// The header is changed. It has no limit, and it is no more than a number.',
    ],
  ])('%s', (_what, text) => {
    expect(found('src/a.ts', text.replace('§', '$'))).toEqual([])
  })

  it.each([
    ['docs/a.md', 'Run `anew`, or:\n\n```sh\nnobody --mended\n```\n\n[a](docs/nobody.md)\n'],
    ['scripts/a.sh', 'nobody=1\n'],
    ['package.json', '{ "nobody": "somebody asks" }'],
  ])('code in %s', (path, text) => {
    expect(found(path, text)).toEqual([])
  })
})

it('every rule says what to write instead, and npm run lint checks them', () => {
  expect(rules.length).toBeGreaterThan(15)
  for (const { write } of rules) expect(write).not.toBe('')
  const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  expect(scripts.lint).toContain('tsx scripts/words.ts')
})
