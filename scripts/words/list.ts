/** A word or phrase that readers stumble over, and what to write in its place. This list is meant to grow. */
export interface Rule {
  pattern: RegExp
  write: string
}

/** Patterns match whole words, in any case; `\b` is set around each of them below. */
const rows: readonly (readonly [string, string])[] = [
  ['mend(?:s|ed|ing)?', 'fix'],
  ['reckon(?:s|ed|ing)?', 'count, compute'],
  ['in vain', 'failed, without success'],
  ['anew', 'again, new'],
  ['strangers?', 'name who it is: an unknown client, anyone who reaches the port'],
  ['nobody|somebody|whoever', 'name who it is: the client, no client, a user'],
  ['he|him|his', 'name who it is: the client, it, they'],
  ['(?<!\\bthere )(?:is|are|was|were) no(?! more\\b| longer\\b)', 'is not X, has no X'],
  ['(?:is|are|was|were|be|been|being) told', 'is notified, receives, is called with'],
  ['in earnest', 'in production'],
  ['whose word|word is believed', 'trusted'],
  ['runs? before a (?:built-in )?sandbox', 'uses the sandbox'],
  ['for ever', 'forever, without end'],
  ['the same answers', 'memoized'],
  ['at hand', 'available, installed'],
  ['of (?:yours|theirs)', 'your own, their'],
  ['well again', 'has recovered'],
  ['the way of an? \\w+', 'the flow of, the path of'],
  ['have it that|be it|as it were|must needs', 'say it plainly'],
  [
    'thereof|thereby|therein|whence|hence|thence|hitherto|heretofore|forthwith|albeit|lest|nay|ere',
    'a modern word',
  ],
  ['amongst|whilst|upon|unto|betwixt', 'among, while, on, to, between'],
  ['befalls?|befell|begets?|begot|begotten|bade|bids', 'happens to, starts, tells'],
  ['wish(?:es)?', 'request, want'],
  ['hears', 'gets, learns'],
  ['as ever', 'as usual'],
  ['for want of', 'because there is no, without'],
  ['one another', 'each other'],
  ['seldom', 'rarely'],
  ['left alone for a (?:while|moment)', 'gets no requests for a while'],
  ['anybody', 'any client, another client, anyone'],
  ['all the same', 'still, anyway, equal'],
  ['at the most', 'at most'],
  ['for good', 'permanently'],
  ['let(?:s|ting)? go of', 'drops, closes, evicts'],
  ['lends?|lent', 'gives, supplies'],
  ['(?:is|are|was|were|be|been) taken for(?! granted)', 'counts as, is mistaken for'],
  ['(?<!\\bthere )(?:is|are|was|were) none(?! of)', 'is not X, is invalid, is not counted'],
]

/** A space between two words may be the end of a line, with what begins a line of a comment. */
const space = '(?: |\\s*\\n[\\s\\0]*(?:\\*|//|#|>)? *)'

export const rules: readonly Rule[] = rows.map(([words, write]) => ({
  pattern: new RegExp(`\\b(?:${words.replaceAll(' ', space)})\\b`, 'gi'),
  write,
}))
