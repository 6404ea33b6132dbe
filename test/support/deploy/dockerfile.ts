import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const repository = fileURLToPath(new URL('../../../', import.meta.url))

interface Instruction {
  keyword: string
  rest: string
}

interface Stage {
  /** What COPY --from calls it; the last one needs no name. */
  name: string
  from: string
  instructions: Instruction[]
}

/** As much of the format as ours uses; throws at what it does not know, rather than pass over it. */
function readDockerfile(): Stage[] {
  const text = readFileSync(`${repository}Dockerfile`, 'utf8')
  const lines = text
    .replaceAll(/^\s*#.*\n/gm, '')
    .replaceAll(/\\\n/g, '')
    .split('\n')
  const stages: Stage[] = []
  for (const line of lines.filter((line) => line.trim() !== '')) {
    const [, keyword, rest] = /^([A-Z]+) (.+)$/.exec(line.trim()) ?? []
    if (keyword === undefined || rest === undefined)
      throw new Error(`not an instruction: ${line}`)
    if (keyword === 'FROM') {
      const [, from = '', name = 'final'] = /^(\S+)(?: AS (\S+))?$/.exec(rest) ?? []
      stages.push({ name, from, instructions: [] })
    } else stages.at(-1)?.instructions.push({ keyword, rest })
  }
  return stages
}

/** NAME=value pairs; the values of ours have no blanks. */
function readEnv(instructions: readonly Instruction[]): Record<string, string> {
  const pairs = instructions
    .filter(({ keyword }) => keyword === 'ENV')
    .flatMap(({ rest }) => rest.split(/\s+/))
  return Object.fromEntries(
    pairs.map((pair) => [pair.replace(/=.*/, ''), pair.replace(/^[^=]*=/, '')]),
  )
}

/** What the image sets, before compose or Kubernetes add theirs. */
export function imageEnv(): Record<string, string> {
  return readEnv(readDockerfile().at(-1)?.instructions ?? [])
}

/** What follows this keyword in the image's own stage, where it stands once. */
export function instructionOf(keyword: string): string | undefined {
  const found = readDockerfile()
    .at(-1)
    ?.instructions.filter((one) => one.keyword === keyword)
  return found?.length === 1 ? found[0]?.rest : undefined
}
