import type { WholeAnswer } from '../upstream/fetch.ts'

/** The answer to an order, as the provider gave it. */
export type KeptAnswer = Pick<WholeAnswer, 'status' | 'reason' | 'rawHeaders' | 'body'>

/**
 * What is known of the order with a key. `sent`: it is on its way. `unknown`: the provider may have it, and its answer is
 * lost. `left`: the same, of a process that is gone, so that the store may know more. `large`: it was answered with more
 * than is kept. A state only goes forward, from `sent` to one of the others.
 */
export type State = 'sent' | 'unknown' | 'left' | 'large' | KeptAnswer

/** What is kept of the order with a key. */
export interface KeptOrder {
  /** Of its target and its bytes; empty: they could not be read. */
  readonly digest: string
  readonly state: State
}

const maxAnswerBytes = 65_536

/** What is kept of an answer. */
export function stateOf({ status, reason, rawHeaders, body }: WholeAnswer): State {
  const answer = { status, reason, rawHeaders, body }
  return bytesOf(answer) > maxAnswerBytes ? 'large' : answer
}

export function bytesOf(state: State): number {
  if (typeof state === 'string') return 0
  return state.rawHeaders.reduce((sum, text) => sum + text.length, state.body.length)
}

/** As keepers have it: one line of JSON. */
export function encode({ digest, state }: KeptOrder): string {
  if (typeof state === 'string') return JSON.stringify({ digest, state })
  return JSON.stringify({ digest, ...state, state: 'answered', body: state.body.toString('base64') })
}

const unanswered: ReadonlySet<unknown> = new Set(['sent', 'unknown', 'left', 'large'])

/** What cannot be read says that there was such an order, and no more. */
export function decode(text: string): KeptOrder {
  try {
    const { digest, state, status, reason, rawHeaders, body } = JSON.parse(text)
    if (typeof digest !== 'string') throw new TypeError('no digest')
    if (unanswered.has(state)) return { digest, state }
    const isAnswer = Number.isInteger(status) && typeof reason === 'string' && typeof body === 'string'
    const isList = Array.isArray(rawHeaders) && rawHeaders.every((one) => typeof one === 'string')
    if (!isAnswer || !isList) throw new TypeError('no answer')
    return { digest, state: { status, reason, rawHeaders, body: Buffer.from(body, 'base64') } }
  } catch {
    return { digest: '', state: 'unknown' }
  }
}
