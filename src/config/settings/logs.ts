import { facts } from '../setting-facts.ts'
import { accessLog, oneOf } from '../value-schemas.ts'

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

export const logSettings = {
  LOG_LEVEL: oneOf(levels)
    .prefault('info')
    .register(facts, {
      meaning: `Lowest level that is logged: ${levels.join(', ')}.`,
    }),
  LOG_FORMAT: oneOf(['auto', 'json', 'pretty']).prefault('auto').register(facts, {
    meaning: 'auto (readable in a terminal, JSON otherwise), json or pretty.',
  }),
  ACCESS_LOG: accessLog.prefault('off').register(facts, {
    meaning:
      'orders: one line at info for each decision about a float order, with log: "orders" and without any address. on: ' +
      'these, and one line for each request, with log: "access".',
  }),
  LOG_CLIENT_ADDRESS: oneOf(['masked', 'full', 'none']).prefault('masked').register(facts, {
    meaning:
      "How a client's address is logged: masked (without its last octet, or its last 64 bits), full, or none.",
  }),
}
