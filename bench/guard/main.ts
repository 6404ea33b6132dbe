// Which orders the guard refuses and which it lets pass, on simulated days and beside a provider whose Date is wrong. A
// whole gateway is asked through its socket, so the same program tells about any version of the guard. It prints tables:
// npx tsx bench/guard/main.ts [day] [products] [dates] [--all], where --all adds the table with every combination.
import { playDates, quotesPerDate } from './dates.ts'
import { playDay } from './day.ts'
import { playProducts } from './products.ts'
import { crossTable, type Outcome, table } from './tally.ts'

/** How far the price moves in a day. */
const shares = [0.02, 0.04]
const named = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const isWanted = (part: string) => named.length === 0 || named.includes(part)

function print(title: string, text: string): void {
  process.stdout.write(`### ${title}\n\n${text}\n`)
}

process.stdout.write(
  'A cell: live orders that were refused / all live ones · late orders that were sent / all late ones (of those sent, paid less than stated; less by a tenth of a percent or more).\n\n',
)

if (isWanted('day')) {
  const days = shares.flatMap((aDay) =>
    ['ip', 'header', 'none'].map((partition) => playDay({ aDay, partition })),
  )
  const outcomes = (await Promise.all(days)).flat()
  const live = outcomes.filter(({ isLate, names }) => !isLate && names.stated === '2 decimals')
  const late = outcomes.filter(({ isLate }) => isLate)
  const tables: [string, Outcome[], string[]][] = [
    ['By partition and address', outcomes, ['partition', 'address', 'stated']],
    ["By the provider's decimals", outcomes, ['a day', 'decimals', 'stated']],
    ['Live orders of two decimals, by client', live, ['partition', 'address', 'client']],
    ['Late orders, by who has a newer quote', late, ['partition', 'address', 'newer quote']],
  ]
  if (process.argv.includes('--all')) {
    tables.push(['Every combination', outcomes, ['a day', 'partition', 'address', 'decimals', 'stated']])
  }
  for (const [title, some, rows] of tables) print(title, crossTable(some, rows, 'slippage'))
}

if (isWanted('products')) {
  const outcomes = (await Promise.all(shares.map(playProducts))).flat()
  print('Six products, five ways to state the amount', crossTable(outcomes, ['product'], 'stated'))
}

if (isWanted('dates')) {
  const head = ['Date', 'live orders refused', 'expired quotes served', 'late orders sent']
  print(`A wrong Date, ${quotesPerDate} quotes each`, table(head, await playDates()))
}
