import { facts } from '../setting-facts.ts'
import { directory, milliseconds, oneOf, quoteIdFields, wholeNumber } from '../value-schemas.ts'

const thirtyDaysMs = 2_592_000_000

export const orderSettings = {
  ORDER_EXPIRED_QUOTE: oneOf(['refuse', 'report'])
    .prefault('refuse')
    .register(facts, {
      meaning:
        'Float orders whose quote has expired: refuse them with 409 quote-expired, or send them and report them. A ' +
        'reported order is counted, logged and shown in the console as one that would have been refused.',
    }),
  ORDER_UNKNOWN_QUOTE: oneOf(['forward', 'refuse'])
    .prefault('forward')
    .register(facts, {
      meaning:
        'Float orders that match no quote of this gateway: forward them, or refuse them with 409 quote-unknown. While ' +
        'the shared store is down they are forwarded, because another replica may have served the quote.',
    }),
  ORDER_EXPIRY_MARGIN_MS: milliseconds(0)
    .prefault('0')
    .register(facts, {
      meaning:
        'A float order is refused as expired when its quote has less time left than this. Set ' +
        'QUOTE_MIN_VALIDITY_MS at least as high, or quotes are served that orders can no longer use.',
    }),
  ORDER_QUOTE_ID_FIELDS: quoteIdFields.prefault('quoteId,quote.id,id').register(facts, {
    meaning:
      'Where an order may name its quote: member names, with dots into nested objects. An unknown id in any ' +
      'of these fields except a bare id makes the order unknown: it is not judged by its terms.',
  }),
  LEDGER_ENTRIES: wholeNumber(1, 10_000_000).prefault('200000').register(facts, {
    defaultText: '200000, fewer under a small heap limit',
    meaning: 'Max quotes remembered past their expiry, so that a late order is answered with "expired".',
  }),
  LEDGER_RETENTION_MS: wholeNumber(0, thirtyDaysMs, ' of milliseconds').prefault('86400000').register(facts, {
    meaning: 'How long past its expiry a quote is remembered. 0: every late order is unknown.',
  }),
  STATE_DIRECTORY: directory.optional().register(facts, {
    meaning:
      'A folder for the journal, so that the ledger and the uses of quotes survive a restart, a crash and a kill. Only one ' +
      'process can use it; it is created if it is missing. Without it, a restart forgets the ledger, and late orders ' +
      'for older quotes are sent.',
  }),
}
