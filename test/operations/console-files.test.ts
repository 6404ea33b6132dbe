import { readdir } from 'node:fs/promises'
import { expect, test, vi } from 'vitest'
import { createConsoleFiles } from '../../src/operations/console-files.ts'

vi.mock('node:fs/promises', { spy: true })

test('a console that could not be read because no descriptor was free is read at the next request', async () => {
  const noDescriptor = Object.assign(new Error('too many open files'), { code: 'EMFILE' })
  vi.mocked(readdir).mockRejectedValueOnce(noDescriptor)
  const files = createConsoleFiles()
  await expect(files('index.html')).rejects.toThrow('too many open files')
  expect((await files('index.html'))?.type).toMatch('text/html')
})
