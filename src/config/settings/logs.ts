import { facts } from '../setting-facts.ts'
import { oneOf } from '../value-schemas.ts'

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

export const logSettings = {
  LOG_LEVEL: oneOf(levels)
    .prefault('info')
    .register(facts, {
      meaning: `Least severe level that is logged: ${levels.join(', ')}.`,
    }),
  LOG_FORMAT: oneOf(['auto', 'json', 'pretty']).prefault('auto').register(facts, {
    meaning: 'auto (readable in a terminal, JSON otherwise), json or pretty.',
  }),
}
