import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type LoadedConfig, loadConfig } from './config/load.ts'
import { SettingsError } from './config/problems.ts'
import { buildGateway } from './gateway/gateway.ts'
import type { Gateway } from './gateway/types.ts'
import { ListenError, listenError, StateError } from './process/errors.ts'
import { createLogger } from './process/logger.ts'
import { setV8Flags } from './process/memory.ts'
import { version } from './process/package-info.ts'
import { ignoreClosedOutput, onSignalsAndErrors } from './process/signals.ts'
import { isWithinEdits } from './process/text.ts'

const flags = {
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
  'check-config': { type: 'boolean' },
  'print-config': { type: 'boolean' },
  'check-health': { type: 'boolean' },
  sandbox: { type: 'boolean' },
} as const

const usage = `quotegate: a proxy between your backend, a swap API and a payments API

Usage: quotegate [flag]   (or: node dist/main.js [flag], npm start -- [flag])

  (no flag)                     Serve; with no configuration it talks to a built-in sandbox
  --sandbox                     Serve only the sandbox, at HOST and PORT
  --check-config                Check the settings and exit
  --print-config                Show each setting in effect and where it comes from, and exit
  --check-health [url]          Exit with 0 if /healthz of this machine's gateway, or the URL, answers 200
  -v, --version                 Print the version and exit
  -h, --help                    Print this and exit
`

/** A mistake on the command line: its message is printed without a stack. */
class UsageError extends Error {}

async function main(environment: NodeJS.ProcessEnv): Promise<void> {
  setV8Flags()
  const flag = readFlags()
  if (flag['check-health'])
    throw new UsageError(
      '--check-health cannot be combined with other flags: --check-health [url]',
    )
  if (flag.help) return print(`${usage}\n${(await texts()).helpText()}`)
  if (flag.version) return print(version)
  const loaded = loadConfig(environment, { by: flag['check-config'] ? 'check' : 'start' })
  if (flag['print-config'] || flag['check-config']) {
    for (const warning of loaded.warnings) printError(`warning: ${warning}`)
    if (flag['print-config']) print((await texts()).printConfig(loaded))
    if (flag['check-config']) print((await texts()).checkedText(loaded))
    return
  }
  await (flag.sandbox ? runSandbox(loaded) : runGateway(loaded))
}

function readFlags() {
  try {
    const { values: flag, positionals } = parseArgs({
      options: flags,
      strict: true,
      allowPositionals: true,
    })
    if (positionals.length > 0)
      throw new TypeError(`Unexpected argument '${positionals[0]}'`)
    return flag
  } catch (error) {
    const known = Object.keys(flags).map((name) => `--${name}`)
    const meant = known.find((flag) =>
      process.argv.slice(2).some((given) => isNear(given, flag)),
    )
    const hint = meant === undefined ? '' : `\nDid you mean ${meant}?`
    // The rest of Node's message is about positional arguments, which are not accepted here.
    const [what] = (error as Error).message.split('. ')
    throw new UsageError(`${what}.${hint}\nThe flags are: ${known.join(', ')}`)
  }
}

/** Whether `given` is a misspelt `flag`: `--sandbx`, `sandbox`, `-sandbox`, `--check_config`, `--sandbox=yes`. */
function isNear(given: string, flag: string): boolean {
  const [name = ''] = given.replaceAll('_', '-').split('=')
  const written = `--${name.replace(/^-+/, '')}`
  return given !== flag && isWithinEdits(written.toLowerCase(), flag, 2)
}

/** Imported only for the flags that need it, so that a normal startup is faster. */
const texts = () => import('./config/help.ts')

async function runGateway(loaded: LoadedConfig): Promise<void> {
  const { config } = loaded
  const logger = await createLogger(config.log)
  const building = buildGateway(loaded, { logger }, { operationsFirst: true })
  let isStopping = false
  // Before the gateway is built: the kernel drops a signal to process 1 of a container that has no listener yet.
  onSignalsAndErrors(logger, {
    async close() {
      isStopping = true
      const built = await Promise.race([
        building,
        setTimeout(config.drain.timeoutMs, undefined),
      ])
      await built?.close(config.drain)
    },
    // If the gateway cannot be built, the program ends with that error.
    readAgain: () =>
      void building.then((built) => built.readSecretsAgain()).catch(() => {}),
  })
  const gateway = await building
  if (isStopping) return
  const { trafficUrl, operationsUrl } = await gateway.listen().catch(async (error) => {
    // A part that is not closed counts as a crash at the next startup.
    await gateway
      .close()
      .catch((cause) => logger.error({ cause }, 'a part could not be closed'))
    throw error
  })
  logger.info(
    { version, trafficUrl, operationsUrl, sandboxUrl: gateway.sandboxUrl },
    'quotegate is listening',
  )
  // Only in a terminal, because these lines are not log lines.
  if (gateway.sandboxUrl !== undefined && process.stderr.isTTY === true)
    printError(sandboxBanner(gateway, trafficUrl, operationsUrl))
}

async function runSandbox({ config }: LoadedConfig): Promise<void> {
  const logger = await createLogger(config.log)
  const { startSandbox } = await import('./sandbox/sandbox.ts')
  const sandbox = await startSandbox(config.traffic).catch((error) => {
    throw listenError(error, config.traffic, 'PORT')
  })
  onSignalsAndErrors(logger, { close: sandbox.close, readAgain() {} })
  logger.info({ version, url: sandbox.url }, 'the sandbox alone is listening')
}

/** Printed to standard error, so that standard output is the log and nothing else. */
function sandboxBanner(
  { sandboxUrl }: Gateway,
  trafficUrl: string,
  operationsUrl: string,
): string {
  return `
  quotegate ${version} talks to its built-in SANDBOX: no real prices, no real money.
  Swap and payments: ${trafficUrl}   console: ${operationsUrl}   sandbox: ${sandboxUrl}

  A checkout, and the metrics:
    curl -sw '\\n' -H 'Authorization: Bearer any-key' -H 'Content-Type: application/json' ${trafficUrl}/checkouts \\
      -d '{"amount":"10.00","currency":"USD"}'
    curl -s ${operationsUrl}/metrics
  A quote, which expires after 30 s, and an order in time, which is sent:
    GIVEN=$(curl -s -H 'App-Name: demo' '${trafficUrl}/v3/pairs/ETH_USDC/quotes?amount=0.1') && echo "$GIVEN"
    QUOTE=$(echo "$GIVEN" | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')
    ORDER='{"pairId":"ETH_USDC","fromAmount":0.1,"fromAddress":"0xfrom","toAddress":"0xto"}'
    curl -sw '\\n' -H 'App-Name: demo' -H "Quotegate-Quote: $QUOTE" -H 'Content-Type: application/json' \\
      -d "$ORDER" ${trafficUrl}/v3/orders/float
  The same order by the user who went for coffee: 409, and nothing is sent:
    sleep 31
    curl -sw '\\n' -H 'App-Name: demo' -H "Quotegate-Quote: $QUOTE" -H 'Content-Type: application/json' \\
      -d "$ORDER" ${trafficUrl}/v3/orders/float
`
}

function print(text: string): void {
  process.stdout.write(`${text.trimEnd()}\n`)
}

function printError(text: string): void {
  process.stderr.write(`${text}\n`)
}

function fail(error: unknown): void {
  const expected = [SettingsError, ListenError, StateError, UsageError].some(
    (kind) => error instanceof kind,
  )
  printError(
    expected ? (error as Error).message : ((error as Error).stack ?? String(error)),
  )
  process.exit(1)
}

/** Everything on the command line except the health check. */
export function runProgram(environment: NodeJS.ProcessEnv): Promise<void> {
  ignoreClosedOutput()
  return main(environment).catch(fail)
}
