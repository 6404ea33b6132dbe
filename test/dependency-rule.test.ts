import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/** File by file, what the linter must refuse to import there. */
const forbidden: Record<string, readonly string[]> = {
  'src/main.ts': ['./app.ts', './routes/area.ts', './sandbox/faults.ts', 'express'],
  'src/index.ts': ['./main.ts', './app.ts', './sandbox/sandbox.ts', 'express'],
  'src/gateway.ts': ['./main.ts', 'express', 'undici'],
  'src/lifecycle.ts': ['./main.ts', 'express'],
  'src/swap-side.ts': ['./main.ts', 'lru-cache'],
  'src/server.ts': ['./gateway.ts', './app.ts', './routes/area.ts', './config.ts', 'express'],
  'src/app.ts': ['./gateway.ts', './client/client-address.ts', './sandbox/sandbox.ts'],
  'src/config.ts': ['./gateway.ts', './logger.ts', './client/client-address.ts', 'zod'],
  'src/settings/sample.ts': ['../gateway.ts', '../sandbox/sandbox.ts', 'express'],
  'src/operations/sample.ts': ['../routes/area.ts', '../config.ts', '../sandbox/sandbox.ts', 'prom-client'],
  'src/openapi/sample.ts': ['../routes/area.ts', '../quotes/quote-cache.ts', '../metrics.ts', 'express'],
  'src/routes/sample.ts': ['../app.ts', '../config.ts', '../sandbox/sandbox.ts', 'undici', 'lru-cache'],
  'src/client/sample.ts': [
    '../routes/area.ts',
    '../quotes/quote.ts',
    '../config.ts',
    'express',
    'rate-limiter-flexible',
  ],
  'src/client/memory-rate-limiter.ts': ['../routes/area.ts', 'ioredis'],
  'src/quotes/sample.ts': ['../routes/area.ts', '../client/partition.ts', 'undici', 'lru-cache', 'ioredis'],
  'src/quotes/quote-ledger.ts': ['../routes/area.ts', 'undici', 'express'],
  'src/upstream/sample.ts': ['../client/address.ts', '../quotes/quote.ts', '../routes/area.ts', 'express'],
  'src/sandbox/sample.ts': ['../problem.ts', '../upstream/headers.ts', '../logger.ts', 'undici'],
  'src/problem.ts': ['./gateway.ts', './upstream/failure.ts', './config.ts', 'pino'],
  'src/logger.ts': ['./routes/exchange.ts', 'prom-client'],
  'src/metrics.ts': ['./upstream/upstream.ts', 'pino'],
  'src/metrics/sample.ts': ['../upstream/upstream.ts', '../gateway.ts', 'pino'],
  'src/new-folder/sample.ts': ['../problem.ts', 'left-pad'],
}

/** What the rule must leave alone: a rule that refuses everything proves nothing. */
const allowed: Record<string, readonly string[]> = {
  'src/main.ts': ['./gateway.ts', './config.ts', './settings/text.ts', './sandbox/sandbox.ts'],
  'src/index.ts': ['./gateway.ts', './config.ts', './listen.ts'],
  'src/gateway.ts': ['./app.ts', './sandbox/sandbox.ts', './upstream/upstream.ts', './config.ts'],
  'src/app.ts': ['./routes/area.ts', './problem.ts', 'express', 'node:http'],
  'src/openapi/sample.ts': ['./headers.ts', '../quotes/quote.ts', '../problem.ts', '../version.ts', 'zod'],
  'src/routes/sample.ts': [
    '../client/partition.ts',
    '../quotes/quote.ts',
    '../upstream/headers.ts',
    './area.ts',
  ],
  'src/client/sample.ts': ['../upstream/forwarded.ts', '../clock.ts', 'node:fs/promises'],
  'src/client/memory-rate-limiter.ts': ['./address.ts', '../problem.ts', 'rate-limiter-flexible'],
  'src/quotes/memory-quote-store.ts': ['./quote.ts', '../upstream/upstream.ts', 'lru-cache'],
  'src/upstream/sample.ts': ['../problem-answer.ts', './headers.ts', 'undici'],
  'src/sandbox/sample.ts': ['../clock.ts', './answer.ts', 'express', 'zod'],
  'src/logger.ts': ['pino', 'pino-pretty'],
  'src/metrics.ts': ['./problem.ts', './metrics/tallies.ts', 'prom-client'],
  'src/metrics/sample.ts': ['./tallies.ts', '../problem.ts', 'prom-client'],
  'test/sample.ts': ['../src/sandbox/sandbox.ts', '../src/upstream/upstream.ts', 'supertest'],
}

/** The imports, as `file specifier`, that the linter refuses in a project of these files and our biome.json. */
function refusedImports(files: Record<string, readonly string[]>): string[] {
  const project = mkdtempSync(join(tmpdir(), 'dependency-rule-'))
  try {
    copyFileSync(fileURLToPath(new URL('../biome.json', import.meta.url)), join(project, 'biome.json'))
    for (const [file, specifiers] of Object.entries(files)) {
      mkdirSync(join(project, dirname(file)), { recursive: true })
      writeFileSync(join(project, file), specifiers.map((specifier) => `import '${specifier}'\n`).join(''))
    }
    const biome = createRequire(import.meta.url).resolve('@biomejs/biome/bin/biome')
    const options = ['--only=style/noRestrictedImports', '--vcs-enabled=false', '--max-diagnostics=none']
    const { stdout } = spawnSync(process.execPath, [biome, 'lint', '--reporter=github', ...options], {
      cwd: project,
      encoding: 'utf8',
    })
    return stdout
      .split('\n')
      .map((line) => /noRestrictedImports,file=(.+?),line=(\d+)/.exec(line))
      .flatMap((found) => {
        const file = found?.[1]?.replace(/^.*?\b(?=(?:src|test)\/)/, '') ?? ''
        const specifier = files[file]?.[Number(found?.[2]) - 1]
        return specifier === undefined ? [] : [`${file} ${specifier}`]
      })
      .sort()
  } finally {
    rmSync(project, { recursive: true, force: true })
  }
}

function pairsOf(files: Record<string, readonly string[]>): string[] {
  return Object.entries(files)
    .flatMap(([file, specifiers]) => specifiers.map((specifier) => `${file} ${specifier}`))
    .sort()
}

test('the linter refuses every import that points left, or takes a package from its owner', () => {
  expect(refusedImports(forbidden)).toEqual(pairsOf(forbidden))
})

test('the linter leaves imports alone that point right', () => {
  expect(refusedImports(allowed)).toEqual([])
})
