import { testLimitsName } from '../../src/config/limits.ts'
import { startProgram } from '../support/gateways/program.ts'
import { type LogLine, linesOf } from '../support/observing/log-lines.ts'

export interface LoggedGateway {
  url: string
  /** What the program wrote until now, as written. */
  text(): string
  lines(log?: 'access' | 'orders'): LogLine[]
  /** Stops it, and returns all that it wrote. */
  stopped(): Promise<LogLine[]>
}

/** The built program, whose standard output is its log. */
export async function startLogged(settings: Record<string, string>): Promise<LoggedGateway> {
  const program = startProgram([], {
    PORT: '0',
    ADMIN_PORT: '0',
    LOG_FORMAT: 'json',
    // Where the kernel cuts the listen backlog, a start has a line about it.
    CLIENT_CONNECTIONS: '1000',
    breakerFailures: '1000000',
    ...settings,
  })
  const [, url = ''] = await program.says(/"trafficUrl":"(.+?)".*\n/)
  const whole = () => program.stdout().slice(0, program.stdout().lastIndexOf('\n') + 1)
  return {
    url,
    text: program.stdout,
    lines: (log) => withoutLimits(linesOf(whole())).filter((line) => log === undefined || line.log === log),
    async stopped() {
      program.child.kill('SIGTERM')
      const { stdout } = await program.exit
      return withoutLimits(linesOf(stdout))
    },
  }
}

/** A start warns of the limits that a test sets. */
function withoutLimits(lines: LogLine[]): LogLine[] {
  return lines.filter(({ msg }) => !msg.startsWith(testLimitsName))
}
