import { memoize } from './headers.ts'

// RFC 9110 5.6.7: three forms of a date, all of which recipients must read. Beyond them, capitals do not matter (RFC 9111
// 4.2), and a numeric zone may stand where GMT belongs. Nothing else is read: `new Date(text)` takes nearly any text.

const time = String.raw`(?<hours>\d\d):(?<minutes>\d\d):(?<seconds>\d\d)`
const zone = String.raw`(?:GMT|(?<sign>[+-])(?<zoneHours>\d\d)(?<zoneMinutes>\d\d))`
export const dateForms = [
  // Sun, 06 Nov 1994 08:49:37 GMT
  String.raw`(?<weekday>[a-z]{3}), (?<day>\d\d) (?<month>[a-z]{3}) (?<year>\d{4}) ${time} ${zone}`,
  // Sunday, 06-Nov-94 08:49:37 GMT
  String.raw`(?<weekday>[a-z]{6,9}), (?<day>\d\d)-(?<month>[a-z]{3})-(?<year>\d\d) ${time} ${zone}`,
  // Sun Nov  6 08:49:37 1994
  String.raw`(?<weekday>[a-z]{3}) (?<month>[a-z]{3}) (?<day>\d\d| \d) ${time} (?<year>\d{4})`,
].map((form) => new RegExp(`^${form}$`, 'i'))

const weekdays = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday']
const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const yearsAhead = 50

/** Milliseconds since the epoch; undefined: this is not a date, or not one of the calendar. `nowMs` tells the century. */
export function readHttpDate(text: string, nowMs: number): number | undefined {
  const date = readDate(text)
  return typeof date === 'object' ? instantOf(date, nowMs) : date
}

/** A server says the same date for a second. One whose year has two digits means an instant only beside a clock. */
const readDate = memoize((text) => {
  for (const form of dateForms) {
    const fields = form.exec(text)?.groups
    if (fields !== undefined) return fields.year?.length === 2 ? fields : instantOf(fields, 0)
  }
  return undefined
})

function instantOf(fields: Record<string, string>, nowMs: number): number | undefined {
  const { weekday = '', month = '', year = '', hours, minutes, seconds } = fields
  const parts = [
    year.length === 2 ? fullYear(Number(year), nowMs) : Number(year),
    months.indexOf(month.toLowerCase()),
    Number(fields.day),
    Number(hours),
    Number(minutes),
    Number(seconds),
  ] as const
  const local = new Date(0)
  local.setUTCFullYear(parts[0], parts[1], parts[2])
  local.setUTCHours(parts[3], parts[4], parts[5])
  // `Date` makes 2 March of 30 February, and the next minute of a second 60.
  if (partsOf(local).some((part, index) => part !== parts[index])) return undefined
  const name = weekdays[local.getUTCDay()] ?? ''
  if (weekday.toLowerCase() !== (weekday.length === 3 ? name.slice(0, 3) : name)) return undefined
  const zoneMs = zoneOf(fields)
  return zoneMs === undefined ? undefined : local.getTime() - zoneMs
}

function partsOf(date: Date): readonly number[] {
  return [
    date.getUTCFullYear(),
    date.getUTCMonth(),
    date.getUTCDate(),
    date.getUTCHours(),
    date.getUTCMinutes(),
    date.getUTCSeconds(),
  ]
}

/** Two digits that seem to be more than 50 years ahead are the most recent past year that ends so. */
function fullYear(digits: number, nowMs: number): number {
  const nowYear = new Date(nowMs).getUTCFullYear()
  const sameCentury = nowYear - (nowYear % 100) + digits
  if (sameCentury > nowYear + yearsAhead) return sameCentury - 100
  return sameCentury + 100 <= nowYear + yearsAhead ? sameCentury + 100 : sameCentury
}

/** How far the zone is ahead of GMT. */
function zoneOf({ sign, zoneHours, zoneMinutes }: Record<string, string>): number | undefined {
  if (sign === undefined) return 0
  const [hours, minutes] = [Number(zoneHours), Number(zoneMinutes)]
  if (hours > 23 || minutes > 59) return undefined
  const aheadMs = (hours * 60 + minutes) * 60_000
  return sign === '+' ? aheadMs : -aheadMs
}

/** The Date line is cached for one second, as Node caches its own. */
let dateOfSecond = ''
let dateUntilMs = 0

export function dateLine(): string {
  const nowMs = Date.now()
  if (nowMs >= dateUntilMs || nowMs < dateUntilMs - 1_000) {
    dateOfSecond = `Date: ${new Date(nowMs).toUTCString()}\r\n`
    dateUntilMs = nowMs - (nowMs % 1_000) + 1_000
  }
  return dateOfSecond
}
