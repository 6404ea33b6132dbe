import { readdir, readFile } from 'node:fs/promises'
import { expect, test, vi } from 'vitest'
import { consoleFile } from '../../src/operations/console-files.ts'

vi.mock('node:fs/promises', { spy: true })

test('a console that could not be read because no descriptor was free is read at the next request', async () => {
  const noDescriptor = Object.assign(new Error('too many open files'), { code: 'EMFILE' })
  vi.mocked(readdir).mockRejectedValueOnce(noDescriptor)
  await expect(consoleFile('index.html')).rejects.toThrow('too many open files')
  expect(String(await consoleFile('index.html'))).toContain('<!doctype html>')
})

test('every file that the page names is served, from the sources and from a build alike', async () => {
  const names = new Set(['index.html'])
  for (const name of names) {
    const file = await consoleFile(name)
    expect(file?.length, name).toBeGreaterThan(0)
    const built = await readFile(
      new URL(`../../dist/operations/console/${name}`, import.meta.url),
    )
    expect(built.equals(file ?? Buffer.alloc(0)), name).toBe(true)
    const text = String(file)
    for (const [, named = ''] of text.matchAll(
      /(?:href="|src="|from '\.\/)([\w-]+\.\w+)/g,
    ))
      names.add(named)
  }
  expect(names).toContain('htm.js')
})
