import { type Asked, playFailingShare } from '../../test/support/clients/failing-share.ts'

/** A provider of which a share fails at once: how much of the rest comes through, and is it left alone once all fails? */
const bursts = Number(process.argv[2] ?? 30)
const percent = (share: number) => `${(share * 100).toFixed(0)} %`

process.stdout.write(
  `${bursts} bursts of 20 requests, one a second\n\n` +
    '| requests | 30 % fail at once, the others take 100 ms: came through | the others take 2 s | all fail: sent after 2 s |\n' +
    '|---|---|---|---|\n',
)
for (const asked of ['orders', 'rest', 'quotes'] satisfies Asked[]) {
  const [quick, slow, dead] = await Promise.all([
    playFailingShare({ asked, bursts, failing: 6, answersAfterMs: 100 }),
    playFailingShare({ asked, bursts, failing: 6, answersAfterMs: 2_000 }),
    playFailingShare({ asked, bursts, failing: 20, answersAfterMs: 0 }),
  ])
  const late = dead.arrivedAfterMs.filter((ms) => ms > 2_100).length
  process.stdout.write(
    `| ${asked} | ${percent(quick.cameThrough / quick.sent)} | ${percent(slow.cameThrough / slow.sent)} | ` +
      `${late} of ${dead.sent} |\n`,
  )
}
