import type { LedgerEntry, QuoteLedger } from './ledger.ts'
import { type Candidate, type Judgement, judgeByTerms, type Verdict, verdictOf } from './matching.ts'
import type { OrderTerms } from './order-terms.ts'
import type { RestoredTrust, Trust } from './restored-trust.ts'
import { statedAmountOf } from './stated-amount.ts'
import type { LeftMs, TermsIndex } from './terms-index.ts'
import type { UnreadableQuotes } from './unreadable-quotes.ts'

type Doubt = 'unreadable' | 'restored'

export interface LedgerVerdictOptions {
  byId: { get(id: string): LedgerEntry | undefined }
  byTerms: Pick<TermsIndex<LedgerEntry>, 'find'>
  unreadable: Pick<UnreadableQuotes, 'mayBeMeant'>
  restored: Pick<RestoredTrust, 'isRestored' | 'trust'>
  leftNow(): LeftMs
  retentionMs: number
}

/** The verdict on an order by what the ledger holds. */
export function createLedgerVerdict(
  options: LedgerVerdictOptions,
): Pick<QuoteLedger, 'verdict' | 'considered'> {
  const { byId, byTerms, unreadable, restored, leftNow, retentionMs } = options

  /** Candidates for an order, as of now. A quote past its retention is not a candidate, even if it is not dropped yet. */
  function candidatesAmong(
    quotes: readonly LedgerEntry[],
    { partition }: Judgement,
  ): Candidate<LedgerEntry>[] {
    const leftMs = leftNow()
    // By a clock that is doubted, a live quote may look as if it had expired long ago.
    const isTimeDoubted = restored.trust() === 'nothing'
    return quotes
      .map((quote) => {
        const isOwn = partition !== undefined && quote.partition === partition
        return { quote, leftMs: leftMs(quote), isOwn }
      })
      .filter((candidate) => isTimeDoubted || candidate.leftMs > -retentionMs)
  }

  function isDistrusted(quote: LedgerEntry, verdict: Verdict, trust: Trust): boolean {
    if (trust === 'all' || !restored.isRestored(quote.serial)) return false
    return trust === 'nothing' || verdict.rule === 'pair-and-amount'
  }

  function judgeByIds(candidates: readonly Candidate<LedgerEntry>[], { marginMs }: Judgement): Verdict {
    const verdict = verdictOf(candidates, { rule: 'id', marginMs })
    if (verdict.state !== 'expired') return verdict
    const trust = restored.trust()
    const isTrusted = candidates.some(({ quote }) => !isDistrusted(quote, verdict, trust))
    return isTrusted ? verdict : { state: 'unknown', rule: 'restored' }
  }

  /** Expired quotes refuse an order only if it cannot mean a quote that is not known here. */
  function judgeUndoubted(
    order: OrderTerms,
    judgement: Judgement,
    judgeBy: (quotes: readonly Candidate<LedgerEntry>[]) => Verdict,
  ): (candidates: readonly Candidate<LedgerEntry>[], doubt?: Doubt) => Verdict {
    const trust = restored.trust()
    return function judge(candidates, doubt) {
      const verdict = judgeBy(candidates)
      if (verdict.state === 'unknown' && doubt !== undefined) return { state: 'unknown', rule: doubt }
      if (verdict.state !== 'expired') return verdict
      let isUnreadable = false
      const undoubted = candidates.filter(({ quote, leftMs }) => {
        if (leftMs > judgement.marginMs) return true
        const mayBeUnreadable = unreadable.mayBeMeant(order, judgement, quote)
        isUnreadable ||= mayBeUnreadable
        return !mayBeUnreadable && !isDistrusted(quote, verdict, trust)
      })
      if (undoubted.length === candidates.length) return verdict
      return judge(undoubted, isUnreadable || doubt === 'unreadable' ? 'unreadable' : 'restored')
    }
  }

  function namedBy({ quoteIds }: OrderTerms, judgement: Judgement): Candidate<LedgerEntry>[] {
    const named = quoteIds.flatMap(({ id }) => byId.get(id) ?? [])
    return candidatesAmong(named, judgement)
  }

  /** An order that matches nothing else may be for an answer that could not be read: such an order is never refused. */
  function unknown(order: OrderTerms, judgement: Judgement, rule: 'id' | 'nothing'): Verdict {
    const { pair: pairId, fromAmount } = order
    const { application } = judgement
    if (pairId === undefined || application === undefined || fromAmount === undefined)
      return { state: 'unknown', rule }
    const terms = { pairId, application, requestedAmount: fromAmount.canonical }
    return { state: 'unknown', rule: unreadable.mayBeMeant(order, judgement, terms) ? 'unreadable' : rule }
  }

  return {
    verdict(order, judgement) {
      const named = namedBy(order, judgement)
      if (named.length > 0) return judgeByIds(named, judgement)
      if (namesUnknown(order)) return unknown(order, judgement, 'id')
      const stated = statedAmountOf(order)
      const { marginMs } = judgement
      const judge = judgeUndoubted(order, judgement, (quotes) =>
        judgeByTerms(order, quotes, { stated, marginMs }),
      )
      const verdict = judge(candidatesAmong(byTerms.find(order, judgement, stated), judgement))
      return verdict.rule === 'nothing' ? unknown(order, judgement, 'nothing') : verdict
    },

    considered(order, judgement) {
      const named = namedBy(order, judgement)
      if (named.length > 0 || namesUnknown(order)) return named
      return candidatesAmong(byTerms.find(order, judgement, statedAmountOf(order)), judgement)
    },
  }
}

/** Of an order that names no quote known here: such an id decides, unless it may be a number of the client's own. */
function namesUnknown({ quoteIds }: OrderTerms): boolean {
  return quoteIds.some(({ isBare }) => !isBare)
}
