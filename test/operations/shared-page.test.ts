import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createSharedPage } from '../../src/operations/shared-page.ts'
import { gatewayWith } from '../support/gateways/between.ts'

test('/metrics is rendered once for all that wait for it, and counts what happened before it was asked for', async () => {
  const { operationsUrl, url } = await gatewayWith()
  const scrape = async () => (await fetch(`${operationsUrl}/metrics`)).text()
  for (let count = 1; count <= 10; count += 1) {
    await (await fetch(`${url}/nothing`)).text()
    expect(await scrape()).toContain(
      `quotegate_problems_total{type="not-found"} ${count}\n`,
    )
  }
  const pages = await Promise.all(Array.from({ length: 60 }, scrape))
  // The processor time that the page states is another in each rendering.
  const seconds = pages.map((page) => /^process_cpu_seconds_total (.+)$/m.exec(page)?.[1])
  expect(seconds).not.toContain(undefined)
  expect(new Set(seconds).size).toBeLessThan(30)
})

test('a page is not made again before its rest is over', async () => {
  const began: number[] = []
  const page = createSharedPage(
    async () => {
      began.push(performance.now())
      return `page ${began.length}`
    },
    () => 250,
  )
  const asked = [page(), page()]
  await setTimeout(10)
  asked.push(page(), page())
  expect(await Promise.all(asked)).toEqual(['page 1', 'page 1', 'page 2', 'page 2'])
  expect(await page()).toBe('page 3')
  const [first = 0, second = 0, third = 0] = began
  // A timer of Node may be a millisecond early.
  expect(second - first).toBeGreaterThan(248)
  expect(third - second).toBeGreaterThan(248)
})

test('who asks while a page is rendered gets the next one, and no two are rendered at once', async () => {
  let [count, rendering] = [0, 0]
  const page = createSharedPage(
    async () => {
      count += 1
      rendering += 1
      const text = `page ${count}, ${rendering} at once`
      await setTimeout(20)
      rendering -= 1
      return text
    },
    () => 5,
  )
  const first = page()
  await setTimeout(5)
  const asked = [first, page(), page()]
  expect(await Promise.all(asked)).toEqual([
    'page 1, 1 at once',
    'page 2, 1 at once',
    'page 2, 1 at once',
  ])
})

test('a page that cannot be rendered is tried again for those who ask later', async () => {
  let fails = true
  const page = createSharedPage(
    async () => {
      if (fails) throw new Error('no page')
      return 'page'
    },
    () => 0,
  )
  await expect(page()).rejects.toThrow('no page')
  fails = false
  expect(await page()).toBe('page')
})
