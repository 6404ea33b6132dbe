#!/usr/bin/env node
/** npm start [-- flags]: builds if a source is newer than dist/, then becomes the program. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { nodeProblem } from '../src/process/needed-node.mjs'
import { isStale } from './build/stale.mjs'

const parent = process.ppid

const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
const problem = nodeProblem(JSON.parse(manifest).engines.node)
if (problem !== undefined) {
  process.stderr.write(`${problem}\n`)
  process.exit(1)
}

if (isStale()) {
  const isFirst = !existsSync(new URL('../dist/main.js', import.meta.url))
  const why = isFirst ? 'dist/ does not exist yet' : 'A source is newer than dist/'
  process.stderr.write(
    `${why}: building it, before quotegate starts. That takes some seconds.\n`,
  )
  const beganMs = performance.now()
  const script = fileURLToPath(new URL('build.mjs', import.meta.url))
  // In a process of its own, whose memory goes with it. Standard output belongs to the program's log.
  const { status } = spawnSync(process.execPath, [script], { stdio: ['ignore', 2, 2] })
  if (status !== 0) process.exit(status ?? 1)
  const seconds = Math.round((performance.now() - beganMs) / 1_000)
  process.stderr.write(`Built in ${seconds} s: quotegate starts.\n`)
}

// npm passes SIGTERM on to the shell between us. Not every shell hands it on: some just end, and we have another parent.
// biome-ignore lint/style/noProcessEnv: npm says there whether it started this.
const byNpm = process.env.npm_lifecycle_event === 'start'
const watch = byNpm ? setInterval(stopWithParent, 100).unref() : undefined

function stopWithParent() {
  if (process.ppid === parent) return
  clearInterval(watch)
  process.kill(process.pid, 'SIGTERM')
}

await import('../dist/main.js')

// A signal of our own after one that arrived would be a second one, which cuts the shutdown short.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'])
  process.prependListener(signal, () => clearInterval(watch))
