import { createReadStream } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { KeyRecord } from './records.ts'

/*
 * The previous layout: STATE_DIRECTORY had journal files of an hour at most, and a file of the keys of orders. They are
 * read, and removed once the present file has their content.
 */

/** The layout number in the heads of these files. */
const layout = 3
const segmentName = /^journal-(\d{1,15})\.ndjson$/
const partName = /^journal-\d+\.part$/
export const keysName = 'keys.ndjson'

interface Found<Head> {
  readonly name: string
  readonly head: Head | undefined
}

export interface OlderFiles {
  /** The files of quotes that are read, in the order of writing. */
  readonly segments: readonly string[]
  /** Every file to remove once the new file has all of its content. */
  readonly names: readonly string[]
  readonly hasKeys: boolean
  /** By their numbers no file is missing, and none was set aside. */
  readonly isWhole: boolean
}

export async function findSegments<Head>(
  names: readonly string[],
  headOf: (name: string) => Promise<Found<Head>>,
) {
  const numberOf = (name: string) => Number(segmentName.exec(name)?.[1])
  const numbered = names
    .filter((name) => segmentName.test(name))
    .sort((one, other) => numberOf(one) - numberOf(other))
  const files: Found<Head>[] = []
  for (const name of numbered) files.push(await headOf(name))
  const parts = names.filter((name) => partName.test(name))
  return {
    layout,
    files,
    /** What is left after these were set aside. */
    without(foreign: ReadonlyMap<string, string>): OlderFiles {
      const segments = numbered.filter((name) => !foreign.has(name))
      const hasKeys = names.includes(keysName)
      const hasGap = segments.some(
        (name, at) =>
          at > 0 && numberOf(name) - 1 !== numberOf(segments[at - 1] as string),
      )
      return {
        segments,
        names: [...segments, ...parts, ...(hasKeys ? [keysName] : [])],
        hasKeys,
        isWhole: parts.length === 0 && !hasGap && segments.length === numbered.length,
      }
    },
  }
}

/** The keys in the order of writing. Undefined: an unreadable line. */
export async function* readOlderKeys(
  directory: string,
): AsyncIterable<KeyRecord | undefined> {
  const input = createReadStream(join(directory, keysName))
  for await (const line of createInterface({ input, crlfDelay: 0 })) yield readKey(line)
}

function readKey(line: string): KeyRecord | undefined {
  try {
    const { key, at, is } = JSON.parse(line)
    if (typeof key !== 'string' || typeof at !== 'number') return undefined
    const text = is === null ? undefined : JSON.stringify(is)
    return { kind: 'key', id: key, text, claimedAtMs: at }
  } catch {
    return undefined
  }
}

/** Whether the newest of them was written after the present file: the previous version ran again. */
export async function areNewer(
  { names }: OlderFiles,
  directory: string,
  path: string,
): Promise<boolean> {
  const times = names.map((name) => writtenAtMs(join(directory, name)))
  return Math.max(...(await Promise.all(times))) > (await writtenAtMs(path))
}

/** By the clock of the file system. */
async function writtenAtMs(path: string): Promise<number> {
  return stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => 0,
  )
}

export async function removeOlder(
  directory: string,
  names: Iterable<string>,
): Promise<void> {
  for (const name of names) await rm(join(directory, name), { force: true })
}
