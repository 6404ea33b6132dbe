/** What is asked of the image and of compose.yaml, from outside. scripts/containers/inside.sh has started Docker. */
import { checkCompose, checkComposeQuote } from './compose.ts'
import { checkImage } from './image.ts'
import { checkLimits } from './limits.ts'
import { checkRollingRestart } from './rolling-restart.ts'

let passed = 0
let failed = 0
const print = (text: string) => process.stdout.write(`${text}\n`)

export type Check = (name: string, body: () => void | Promise<void>) => Promise<void>

const check: Check = async (name, body) => {
  const beganMs = Date.now()
  try {
    await body()
    passed += 1
    print(`ok: ${name} (${((Date.now() - beganMs) / 1_000).toFixed(1)} s)`)
  } catch (error) {
    failed += 1
    const { stack, cause } = error as Error
    print(`FAILED: ${name}\n${stack}${cause === undefined ? '' : `\nbecause of ${cause}`}`)
  }
}

const which = process.argv[2]
if (which === 'quick') await checkComposeQuote(check)
else if (which === 'limits') await checkLimits(check)
else for (const part of [checkImage, checkRollingRestart, checkCompose]) await part(check)
print(` Tests  ${passed} passed | ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1
