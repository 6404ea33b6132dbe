import { createServer } from 'node:http'
import express from 'express'
import { expect, test } from 'vitest'
import { gatewayWith } from '../support/gateways/between.ts'
import { listening } from '../support/machine/listening.ts'
import { ask } from './support.ts'

/** The operations app below /inner/console of another app, which is itself below /outer. */
async function mounted(): Promise<string> {
  const gateway = await gatewayWith()
  const outer = express()
  const inner = express()
  inner.use('/inner/console', gateway.operations)
  outer.use('/outer', inner)
  return (await listening(createServer(outer))).url
}

test.each([
  ['/outer/inner/console', '/outer/inner/console/'],
  ['/outer/inner/console?theme=dark', '/outer/inner/console/?theme=dark'],
])(
  'the console below a path without its final slash, %s, redirects to %s',
  async (path, target) => {
    const url = await mounted()
    const { status, headers } = await ask(url + path)
    expect(status).toBe(301)
    // Relative, so that it also holds behind a proxy that has removed the beginning of the path.
    const location = String(headers.location)
    expect(location).toMatch(/^\.\//)
    expect(new URL(location, url + path).href).toBe(url + target)
    expect((await ask(url + target)).body).toContain('<h1>quotegate</h1>')
  },
)

test('the console redirects nowhere else, whatever the path looks like', async () => {
  const url = await mounted()
  for (const path of ['//evil.example/console', '/outer//evil.example/inner/console']) {
    const { status, headers } = await ask(url + path)
    expect([status, headers.location]).toEqual([404, undefined])
  }
  const { operationsUrl } = await gatewayWith()
  expect((await ask(operationsUrl)).status).toBe(200)
  expect((await ask(`${operationsUrl}/?theme=dark`)).status).toBe(200)
})
