import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/** Room by room, what the linter must refuse to import there. */
const forbidden: Record<string, readonly string[]> = {
  'src/main.ts': ['./gateway/gateway.ts', './config/config.ts', 'express'],
  'src/program.ts': ['./routes/app.ts', './sandbox/faults.ts', 'express'],
  'src/index.ts': ['./main.ts', './routes/app.ts', './sandbox/sandbox.ts', 'express'],
  'src/clock.ts': ['./gateway/gateway.ts', './process/logger.ts'],
  'src/process/sample.ts': ['../http/problem.ts', '../config/config.ts', 'zod'],
  'src/config/sample.ts': [
    '../gateway/gateway.ts',
    '../client/partition.ts',
    '../sandbox/sandbox.ts',
    'express',
  ],
  'src/gateway/sample.ts': ['express', 'undici', 'lru-cache'],
  'src/http/sample.ts': ['../config/config.ts', '../upstream/fetch.ts', '../metrics/metrics.ts', 'express'],
  'src/server/sample.ts': ['../routes/area.ts', '../config/config.ts', '../gateway/gateway.ts', 'express'],
  'src/routes/sample.ts': [
    '../config/config.ts',
    '../gateway/gateway.ts',
    '../server/listen.ts',
    '../replicas/store.ts',
    '../tracing/otlp.ts',
    'undici',
    'lru-cache',
  ],
  'src/client/sample.ts': [
    '../routes/area.ts',
    '../quotes/quote.ts',
    '../upstream/upstream.ts',
    '../config/config.ts',
    'express',
  ],
  'src/quotes/sample.ts': [
    '../routes/area.ts',
    '../orders/ledger.ts',
    '../server/listen.ts',
    'undici',
    'ioredis',
  ],
  'src/orders/sample.ts': [
    '../routes/area.ts',
    '../server/listen.ts',
    '../config/config.ts',
    '../journal/disk.ts',
    '../replicas/store.ts',
    'undici',
    'express',
  ],
  'src/upstream/sample.ts': ['../client/partition.ts', '../quotes/quote.ts', '../routes/area.ts', 'express'],
  'src/replicas/sample.ts': ['../routes/area.ts', '../upstream/fetch.ts', '../quotes/cache.ts', 'undici'],
  'src/journal/sample.ts': ['../quotes/cache.ts', '../orders/ledger.ts', '../replicas/store.ts', 'ioredis'],
  'src/tracing/sample.ts': ['../routes/area.ts', '../upstream/upstream.ts', '../config/config.ts', 'undici'],
  'src/metrics/sample.ts': ['../gateway/gateway.ts', '../config/config.ts', 'pino'],
  'src/operations/sample.ts': [
    '../routes/area.ts',
    '../config/config.ts',
    '../sandbox/sandbox.ts',
    'prom-client',
  ],
  'src/sandbox/sample.ts': ['../quotes/quote.ts', '../config/config.ts', '../upstream/fetch.ts', 'undici'],
  'src/new-room/sample.ts': ['../http/problem.ts', 'left-pad'],
}

/** What the rule must leave alone: a rule that refuses everything proves nothing. */
const allowed: Record<string, readonly string[]> = {
  'src/main.ts': ['./process/check-health.ts', './program.ts'],
  'src/program.ts': [
    './gateway/gateway.ts',
    './config/config.ts',
    './process/logger.ts',
    './sandbox/sandbox.ts',
  ],
  'src/index.ts': ['./gateway/gateway.ts', './config/problems.ts', './process/logger.ts'],
  'src/process/sample.ts': ['./logger.ts', 'pino'],
  'src/config/sample.ts': ['../http/ip-address.ts', '../process/logger.ts', 'zod'],
  'src/gateway/sample.ts': [
    '../routes/app.ts',
    '../sandbox/sandbox.ts',
    '../upstream/upstream.ts',
    '../clock.ts',
  ],
  'src/http/sample.ts': ['./headers.ts', '../clock.ts', 'node:http'],
  'src/server/sample.ts': ['./listen.ts', '../http/problem.ts', '../process/logger.ts'],
  'src/routes/sample.ts': [
    '../client/partition.ts',
    '../orders/ledger.ts',
    '../quotes/quote.ts',
    '../server/rate-limit.ts',
    '../upstream/fetch.ts',
    '../http/headers.ts',
    'express',
  ],
  'src/client/sample.ts': ['../http/forwarded.ts', '../clock.ts', 'lru-cache'],
  'src/quotes/sample.ts': [
    './quote.ts',
    '../client/partition.ts',
    '../server/exchange.ts',
    '../upstream/fetch.ts',
    '../http/headers.ts',
    'lru-cache',
    'zod',
  ],
  'src/orders/sample.ts': [
    './ledger.ts',
    '../server/exchange.ts',
    '../client/partition.ts',
    '../quotes/quote.ts',
    '../upstream/fetch.ts',
    '../journal/journal.ts',
    'lossless-json',
  ],
  'src/upstream/sample.ts': ['../http/problem.ts', './fetch.ts', 'undici'],
  'src/replicas/sample.ts': [
    './store.ts',
    '../client/rate-limiter.ts',
    '../quotes/ports.ts',
    '../journal/stream-store.ts',
    '../http/headers.ts',
    'ioredis',
  ],
  'src/journal/sample.ts': ['./journal.ts', '../clock.ts', '../http/decimal.ts'],
  'src/tracing/sample.ts': ['./otlp.ts', '../http/ids.ts', '@opentelemetry/sdk-trace-base'],
  'src/metrics/sample.ts': ['./series.ts', '../upstream/upstream.ts', '../journal/disk.ts', 'prom-client'],
  'src/operations/sample.ts': ['./status.ts', '../http/problem.ts', '../quotes/listing.ts', 'express', 'zod'],
  'src/sandbox/sample.ts': [
    '../clock.ts',
    './answer.ts',
    '../http/decimal.ts',
    'express',
    'lru-cache',
    'zod',
  ],
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

test('the linter accepts imports that point right', () => {
  expect(refusedImports(allowed)).toEqual([])
})
