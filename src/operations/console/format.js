import { page } from './page.js'

const dayMs = 86_400_000

export function milliseconds(ms) {
  if (ms === null || ms === undefined) return '–'
  if (ms < 1) return ms.toFixed(2)
  if (ms < 10) return ms.toFixed(1)
  return Math.round(ms).toLocaleString('en')
}

/** A time in a unit that is readable at a glance. */
export function span(ms) {
  if (ms === null || ms === undefined) return '–'
  const seconds = ms / 1000
  if (Math.abs(seconds) < 10) return `${seconds.toFixed(1)} s`
  if (Math.abs(seconds) < 120) return `${Math.round(seconds)} s`
  const minutes = seconds / 60
  if (minutes < 120) return `${Math.floor(minutes)} min`
  const hours = minutes / 60
  return hours < 48
    ? `${Math.floor(hours)} h ${Math.floor(minutes % 60)} min`
    : `${Math.floor(hours / 24)} d`
}

/** From one time to another, with the unit once if it is the same. */
export function spans(leastMs, mostMs) {
  const [least, most] = [span(leastMs), span(mostMs)]
  if (least === most) return most
  const [number, unit, ...more] = least.split(' ')
  return more.length === 0 && most.endsWith(` ${unit}`)
    ? `${number} to ${most}`
    : `${least} to ${most}`
}

export function count(number) {
  if (number < 10_000) return number.toLocaleString('en')
  return number < 1_000_000
    ? `${(number / 1000).toFixed(1)}k`
    : `${(number / 1_000_000).toFixed(1)}M`
}

export function bytes(number) {
  if (number < 1024) return `${number} B`
  return number < 1_048_576
    ? `${(number / 1024).toFixed(0)} KiB`
    : `${(number / 1_048_576).toFixed(1)} MiB`
}

export const percent = (share, digits = 1) => `${(share * 100).toFixed(digits)} %`

export function signedPercent(share) {
  if (share === undefined) return '–'
  const text = (Math.abs(share) * 100).toFixed(3)
  if (Number(text) === 0) return '0 %'
  return `${share > 0 ? '+' : '−'}${text} %`
}

/** `14:05:02`; with its date after a day. */
export function clockTime(at) {
  const date = new Date(at)
  const day = page.latest.now - at > dayMs ? `${date.toLocaleDateString('en-GB')} ` : ''
  return day + date.toLocaleTimeString('en-GB')
}

export function statusClass(status) {
  if (status === 0 || status >= 500) return 'bad'
  return status >= 400 ? 'warn' : 'good'
}

/** `1 pair`, `2 pairs`. */
export function many(number, what) {
  return `${count(number)} ${what}${number === 1 ? '' : 's'}`
}

/** `last 4 s`, `last 12 min`, `last 24 h`. */
export function reach(seconds) {
  if (seconds < 120) return `last ${Math.max(1, Math.round(seconds))} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 120 ? `last ${minutes} min` : `last ${Math.round(minutes / 60)} h`
}

const list = new Intl.ListFormat('en-GB')

/** `a, b and c`. */
export const listed = (texts) => list.format(texts)
