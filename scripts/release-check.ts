/**
 * Whether this commit may be released, and the record of it: npm run release:check. What this machine cannot check is
 * named at the end. With `--rehearse` the long checks are left out, and it never passes.
 */
import { spawnSync } from 'node:child_process'
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isPermissive, productionPackages } from './production-packages.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const rehearsal = process.argv.includes('--rehearse')
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string
}
const tag = `v${version}`
const record: string[] = []
const refused: string[] = []
const notChecked: string[] = []

function note(what: string, result: string, isGood = true): void {
  record.push(`| ${what} | ${isGood ? '' : '**no:** '}${result} |`)
  process.stdout.write(`${isGood ? 'yes' : 'NO'}: ${what}: ${result}\n`)
  if (!isGood) refused.push(what)
}

function noteNotChecked(what: string, why: string): void {
  record.push(`| ${what} | not checked: ${why} |`)
  process.stdout.write(`not checked: ${what}: ${why}\n`)
  notChecked.push(`${what} (${why})`)
}

function run(command: string, parameters: readonly string[], cwd = root) {
  return spawnSync(command, parameters, {
    cwd,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
}

function checkTree(): void {
  const changed = run('git', ['status', '--porcelain']).stdout.trim()
  const commit = run('git', ['rev-parse', '--short', 'HEAD']).stdout.trim()
  note(
    'clean tree',
    changed === '' ? `at ${commit}` : changed.replaceAll('\n', ', '),
    changed === '',
  )
  const isTold = readFileSync(join(root, 'CHANGELOG.md'), 'utf8').includes(
    `\n## ${version}`,
  )
  note('the changelog has this version', version, isTold)
  const isTagged = run('git', ['tag', '--list', tag]).stdout.trim() !== ''
  note('the tag is free', tag, !isTagged)
}

function checkLicences(): void {
  const packages = productionPackages()
  const counts = new Map<string, number>()
  for (const { license = 'none' } of packages)
    counts.set(license, (counts.get(license) ?? 0) + 1)
  const strict = packages.filter(({ license }) => !isPermissive(license))
  const shown = [...counts].map(([license, count]) => `${license} ${count}`).join(', ')
  const named = strict.map(({ name, license }) => `${name} (${license})`).join(', ')
  note('licences, all permissive', named === '' ? shown : named, strict.length === 0)
  const direct = packages.filter((one) => one.direct).map(({ name }) => name)
  note(
    'production dependencies',
    `${direct.length} direct, ${packages.length} in all: ${direct.join(', ')}`,
  )
}

function checkAudit(): void {
  const { stdout } = run('npm', ['audit', '--omit=dev', '--json'])
  const { metadata } = JSON.parse(stdout === '' ? '{}' : stdout)
  const found: Record<string, number> | undefined = metadata?.vulnerabilities
  if (found === undefined) {
    noteNotChecked('npm audit --omit=dev', 'this registry answers no audits')
    return
  }
  const { total = 0, high = 0, critical = 0 } = found
  note(
    'npm audit --omit=dev',
    `${total} found, ${high + critical} of them high`,
    high + critical === 0,
  )
}

function checkInstall(): void {
  const folder = mkdtempSync(join(tmpdir(), 'release-check-'))
  try {
    run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder])
    const tarball =
      readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? 'none.tgz'
    writeFileSync(join(folder, 'package.json'), '{ "private": true }')
    const quiet = ['--omit=dev', '--no-audit', '--no-fund', '--silent']
    const { status } = run('npm', ['install', ...quiet, `./${tarball}`], folder)
    const { bytes, files } = sizeOf(join(folder, 'node_modules'))
    const own = sizeOf(join(folder, 'node_modules/quotegate'))
    const kilobytes = (size: number) => `${Math.round(size / 1_000)} kB`
    note('tarball', kilobytes(statSync(join(folder, tarball)).size))
    const whole = `${(bytes / 1_000_000).toFixed(1)} MB in ${files} files`
    note(
      'installed',
      `${whole}, of which quotegate itself ${kilobytes(own.bytes)}`,
      status === 0,
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function sizeOf(folder: string): { bytes: number; files: number } {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const bytes = files.reduce(
    (sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size,
    0,
  )
  return { bytes, files: files.length }
}

function runAll(script: string): void {
  if (rehearsal) {
    noteNotChecked(`npm run ${script}`, 'left out by --rehearse')
    return
  }
  const { status } = spawnSync('npm', ['run', script], { cwd: root, stdio: 'inherit' })
  note(`npm run ${script}`, status === 0 ? 'passed' : `exit code ${status}`, status === 0)
}

checkTree()
run('npm', ['run', '--silent', 'build'])
checkLicences()
checkAudit()
checkInstall()
// The tests of the tarball are among the first of these.
runAll('check')
runAll('test:nodes')

process.stdout.write(
  `\n| release check, node ${process.version}, ${process.platform} | |\n|---|---|\n${record.join('\n')}\n`,
)
if (notChecked.length > 0)
  process.stdout.write(`\nNot checked on this machine: ${notChecked.join('; ')}.\n`)
if (refused.length > 0)
  process.stdout.write(`\nNot to be released: ${refused.join('; ')}.\n`)
else if (rehearsal)
  process.stdout.write('\nEvery other answer is yes. A rehearsal allows no release.\n')
else {
  const command = `git tag -a ${tag} -m 'quotegate ${version}' && git push origin ${tag}`
  process.stdout.write(`\nEvery other answer is yes. To release: ${command}\n`)
}
process.exitCode = refused.length === 0 && !rehearsal ? 0 : 1
