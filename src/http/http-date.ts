import { memoize } from './memoize.ts'

// RFC 9110 5.6.7: recipients must read three forms. Capitals do not matter (RFC 9111 4.2), and a numeric zone may
// replace GMT. Nothing else is read: `new Date(text)` takes nearly any text.

const time = String.raw`(?<time>\d\d:\d\d:\d\d)`
const zone = String.raw`(?:GMT|(?<sign>[+-])(?<zoneHours>[01]\d|2[0-3])(?<zoneMinutes>[0-5]\d))`
export const dateForms = [
  // Sun, 06 Nov 1994 08:49:37 GMT
  String.raw`(?<weekday>[a-z]{3}), (?<day>\d\d) (?<month>[a-z]{3}) (?<year>\d{4}) ${time} ${zone}`,
  // Sunday, 06-Nov-94 08:49:37 GMT
  String.raw`(?<weekday>sun|mon|tues|wednes|thurs|fri|satur)day, (?<day>\d\d)-(?<month>[a-z]{3})-(?<year>\d\d) ${time} ${zone}`,
  // Sun Nov  6 08:49:37 1994
  String.raw`(?<weekday>[a-z]{3}) (?<month>[a-z]{3}) (?<day>\d\d| \d) ${time} (?<year>\d{4})`,
].map((form) => new RegExp(`^${form}$`, 'i'))

/** Undefined: not a date, or not one of the calendar. `nowMs` tells the century. */
export function readHttpDate(text: string, nowMs: number): number | undefined {
  const usual = readUsualForm(text)
  if (usual !== undefined) return usual
  for (const form of dateForms) {
    const fields = form.exec(text)?.groups
    if (fields !== undefined) return instantOf(fields, nowMs)
  }
  return undefined
}

/** All answers of one second have the same Date. Its four-digit year makes `nowMs` irrelevant. */
const readUsualForm = memoize((text) => {
  const fields = dateForms[0]?.exec(text)?.groups
  return fields && instantOf(fields, Number.NaN)
})

function instantOf(fields: Record<string, string>, nowMs: number): number | undefined {
  const {
    weekday = '',
    day = '',
    month = '',
    year = '',
    time,
    sign,
    zoneHours,
    zoneMinutes,
  } = fields
  const fullYear = year.length === 2 ? yearOf(Number(year), nowMs) : year
  const date = `${capitalized(weekday)}, ${day.replace(' ', '0')} ${capitalized(month)} ${fullYear} ${time} GMT`
  const local = new Date(date)
  // `Date` turns 30 February into 2 March, and takes any day of the week.
  if (local.toUTCString() !== date) return undefined
  const aheadMs = (Number(zoneHours ?? 0) * 60 + Number(zoneMinutes ?? 0)) * 60_000
  return local.getTime() - (sign === '-' ? -aheadMs : aheadMs)
}

function capitalized(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1, 3).toLowerCase()
}

/** A two-digit year that seems over 50 years ahead means the most recent past year with these digits. */
function yearOf(digits: number, nowMs: number): number {
  const latest = new Date(nowMs).getUTCFullYear() + 50
  return latest - ((latest - digits) % 100)
}
