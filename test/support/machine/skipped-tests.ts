import type { Reporter, TestCase, TestModule, Vitest } from 'vitest/node'
import { debianPackageOf, type Program, programs } from './programs.ts'

/**
 * Says at the end of a run what it skipped: how many tests for which missing program, and which Debian packages they need.
 */
export class SkippedTests implements Reporter {
  private vitest: Vitest | undefined

  onInit(vitest: Vitest): void {
    this.vitest = vitest
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const missing = this.missingPrograms()
    const needs = ({ tags }: TestCase) =>
      missing.filter((program) => tags.includes(program))
    // Tests that a filter of the command line leaves out have the same state as those that are skipped.
    const { tagsFilter, testNamePattern } = this.vitest?.config ?? {}
    const isFiltered = tagsFilter !== undefined || testNamePattern !== undefined
    const skipped = tests
      .filter((test) => test.result().state === 'skipped')
      .filter((test) => !isFiltered || needs(test).length > 0)
    const lines = summaryOf(
      skipped.map((test) => ({ name: test.fullName, missing: needs(test) })),
    )
    if (lines.length > 0) this.vitest?.logger.log(`${lines.join('\n')}\n`)
  }

  private missingPrograms(): Program[] {
    const skippedTags = (this.vitest?.config.tags ?? [])
      .filter(({ skip }) => skip)
      .map(({ name }) => name)
    return programs.filter((program) => skippedTags.includes(program))
  }
}

/** For people: which programs are missing, how many tests were skipped for each, and how to get them. */
export function summaryOf(
  skipped: readonly { name: string; missing: readonly Program[] }[],
): string[] {
  const lines: string[] = []
  const counts = new Map<string, number>()
  for (const { missing } of skipped)
    for (const program of missing) counts.set(program, (counts.get(program) ?? 0) + 1)
  const byProgram = programs.filter((program) => counts.has(program))
  const forPrograms = skipped.filter(({ missing }) => missing.length > 0)
  if (byProgram.length > 0) {
    const packages = [...new Set(byProgram.map(debianPackageOf))]
    lines.push(
      `Skipped ${forPrograms.length} tests, because these programs are not installed:`,
      ...byProgram.map((program) => {
        const count = counts.get(program)
        return `  ${program.padEnd(16)} ${count} ${count === 1 ? 'test' : 'tests'} (Debian package ${debianPackageOf(program)})`
      }),
      `Debian has all of them: apt-get install ${packages.join(' ')}`,
    )
  }
  const others = skipped.filter(({ missing }) => missing.length === 0)
  if (others.length > 0) {
    lines.push(
      `Skipped for reasons that their files give:`,
      ...others.map(({ name }) => `  ${name}`),
    )
  }
  return lines
}
