/** What is asked of the image and of compose.yaml, from outside. scripts/containers/inside.sh has started Docker. */
import { checkCompose, checkComposeQuote } from './compose.ts'
import { checkImage } from './image.ts'
import { checkLimits } from './limits.ts'
import { checkManifests } from './manifests.ts'
import { checkRollingRestart } from './rolling-restart.ts'

let passed = 0
let failed = 0

export type Check = (name: string, body: () => void | Promise<void>) => Promise<void>

const check: Check = async (name, body) => {
  const beganMs = Date.now()
  try {
    await body()
    passed += 1
    print(`ok: ${name} (${((Date.now() - beganMs) / 1_000).toFixed(1)} s)`)
  } catch (error) {
    failed += 1
    print(`FAILED: ${name}\n${(error as Error).stack}`)
    if ((error as Error).cause !== undefined) print(`because of ${(error as Error).cause}`)
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

const which = process.argv[2]
if (which === 'quick') {
  await checkComposeQuote(check)
} else if (which === 'limits') {
  await checkLimits(check)
} else {
  await checkImage(check)
  await checkRollingRestart(check)
  await checkCompose(check)
  await checkManifests(check)
}
print(` Tests  ${passed} passed | ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1
