import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { hashFile, hashOfConsoleFiles } from './console-files-hash.ts'

test('the pictures of the README show the page as it is: after a change, `npm run pictures` takes them again', () => {
  expect(readFileSync(hashFile, 'utf8').trim()).toBe(hashOfConsoleFiles())
})
