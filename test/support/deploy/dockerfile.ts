import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const repository = fileURLToPath(new URL('../../../', import.meta.url))

export interface Instruction {
  keyword: string
  rest: string
}

export interface Stage {
  /** What COPY --from calls it; the last one needs no name. */
  name: string
  from: string
  instructions: Instruction[]
}

export interface Copy {
  /** A stage, or none for the build context. */
  from: string | undefined
  sources: string[]
  destination: string
}

/** As much of the format as ours uses; throws at what it does not know, rather than pass over it. */
export function readDockerfile(): Stage[] {
  const text = readFileSync(`${repository}Dockerfile`, 'utf8')
  const lines = text
    .replaceAll(/^\s*#.*\n/gm, '')
    .replaceAll(/\\\n/g, '')
    .split('\n')
  const stages: Stage[] = []
  for (const line of lines.filter((line) => line.trim() !== '')) {
    const [, keyword, rest] = /^([A-Z]+) (.+)$/.exec(line.trim()) ?? []
    if (keyword === undefined || rest === undefined) throw new Error(`not an instruction: ${line}`)
    if (keyword === 'FROM') {
      const [, from = '', name = 'final'] = /^(\S+)(?: AS (\S+))?$/.exec(rest) ?? []
      stages.push({ name, from, instructions: [] })
    } else stages.at(-1)?.instructions.push({ keyword, rest })
  }
  return stages
}

export function readCopy({ rest }: Instruction): Copy {
  const words = rest.split(/\s+/)
  const flag = words[0]?.startsWith('--') ? words.shift() : undefined
  const from = flag === undefined ? undefined : /^--from=(\S+)$/.exec(flag)?.[1]
  if (flag !== undefined && from === undefined) throw new Error(`unknown flag of COPY: ${flag}`)
  const destination = words.pop() ?? ''
  return { from, sources: words, destination }
}

/** NAME=value pairs; the values of ours have no blanks. */
export function readEnv(instructions: readonly Instruction[]): Record<string, string> {
  const pairs = instructions
    .filter(({ keyword }) => keyword === 'ENV')
    .flatMap(({ rest }) => rest.split(/\s+/))
  return Object.fromEntries(pairs.map((pair) => [pair.replace(/=.*/, ''), pair.replace(/^[^=]*=/, '')]))
}

/** Names at the top of the repository that are sent to the builder. */
export function readContext(): string[] {
  const patterns = readFileSync(`${repository}.dockerignore`, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  const [first, ...others] = patterns
  if (first !== '*' || !others.every((pattern) => /^![\w.-]+$/.test(pattern))) {
    throw new Error('.dockerignore is expected to keep everything out, and then to let single names in')
  }
  const names = others.map((pattern) => pattern.slice(1))
  const missing = names.filter((name) => !existsSync(`${repository}${name}`))
  if (missing.length > 0) throw new Error(`.dockerignore lets in what is not there: ${missing}`)
  return readdirSync(repository).filter((name) => names.includes(name))
}

/** What the image sets, before compose or Kubernetes add theirs. */
export function imageEnv(): Record<string, string> {
  return readEnv(readDockerfile().at(-1)?.instructions ?? [])
}
