import { playFailingPair } from '../../test/support/clients/failing-pair.ts'

/** One pair whose quotes fail at random, at 20 quotes and two orders a second: how many live orders are accepted? */
const seconds = Number(process.argv[2] ?? 60)
const quotesPerSecond = 20

process.stdout.write('| quotes that fail | live orders accepted | quotes given | failed | refused here |\n')
process.stdout.write('|---|---|---|---|---|\n')
for (const failing of [0.3, 0.5, 0.7]) {
  const { ordersAccepted, ordersRefused, quotesGiven, quotesFailed, quotesRefused } = await playFailingPair({
    failing,
    quotes: seconds * quotesPerSecond,
    quotesPerOrder: quotesPerSecond / 2,
    quotesPerSecond,
  })
  const orders = `${ordersAccepted} of ${ordersAccepted + ordersRefused}`
  process.stdout.write(
    `| ${failing * 100} % | ${orders} | ${quotesGiven} | ${quotesFailed} | ${quotesRefused} |\n`,
  )
}
