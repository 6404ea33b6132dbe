import { describe, expect, it } from 'vitest'
import { readOrder } from '../../src/orders/order-terms.ts'

const fields = { quoteIdFields: ['quoteId', 'quote.id', 'id'] }
const read = (text: string) => readOrder(Buffer.from(text), fields)
const orderOf = (text: string) => {
  const { order, problem } = read(text)
  if (order === undefined) throw new Error(problem)
  return order
}
const fromAmountOf = (json: string) => orderOf(`{"fromAmount":${json}}`).fromAmount
const nested = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`

const seen =
  '{"pairId":"ETH_USDC","fromAmount":0.1,"fromAddress":"0x1","toAddress":"0x2","toAmount":289.645,"slippage":0.5}'

describe('the terms of an order', () => {
  it('are read from the order of a public client', () => {
    expect(orderOf(seen)).toEqual({
      quoteIds: [],
      pair: 'ETH_USDC',
      fromAmount: { text: '0.1', canonical: '0.1', isNumber: true },
      toAmount: { text: '289.645', canonical: '289.645', isNumber: true },
      toAddress: '0x2',
    })
  })

  it('are all absent in an empty object', () => {
    const open = { quoteIds: [], pair: undefined, fromAmount: undefined, toAmount: undefined }
    expect(orderOf(' {} \r\n')).toEqual(open)
  })

  it.each([
    ['0.1000000000000000055', '0.1000000000000000055'],
    ['9007199254740993', '9007199254740993'],
    ['1e-7', '0.0000001'],
    ['1E+21', '1000000000000000000000'],
    ['0.10', '0.1'],
    ['0', '0'],
  ])('keep the source text of the number %s', (text, canonical) => {
    expect(fromAmountOf(text)).toEqual({ text, canonical, isNumber: true })
  })

  it.each([
    ['"0.10"', '0.10', false],
    ['"1e-1"', '1e-1', false],
    ['{"assetId":"ETH","value":"0.10"}', '0.10', false],
    ['{"value":0.10,"assetId":"ETH"}', '0.10', true],
    ['{"value":1e-1}', '1e-1', true],
  ])('read the amount %s', (json, text, isNumber) => {
    expect(fromAmountOf(json)).toEqual({ text, canonical: '0.1', isNumber })
  })

  it.each([
    ...[
      'true',
      '-1',
      '-0',
      '""',
      '" "',
      '"0x0"',
      '"-1"',
      '"1,5"',
      '"Infinity"',
      '"one"',
      '{"value":{"value":"1"}}',
    ],
    ...[
      '1e80',
      '1e9999999',
      `1${'0'.repeat(80)}`,
      `"${'9'.repeat(81)}"`,
      '[]',
      '[1]',
      '["1"]',
      '{"value":["1"]}',
    ],
  ])('distinguish %s, which is not an amount, from an absent amount', (json) => {
    expect(fromAmountOf(json)).toBeUndefined()
    expect(orderOf(`{"toAmount":${json}}`).toAmount).toBe('unreadable')
  })

  it.each(['null', '{}', '{"value":null}', '{"assetId":"ETH"}'])('have no amount in %s', (json) => {
    expect(fromAmountOf(json)).toBeUndefined()
    expect(orderOf(`{"toAmount":${json}}`).toAmount).toBeUndefined()
  })

  it.each([
    ...[
      '" 0.1"',
      '"0.1 "',
      '"+0.1"',
      '"\\t0.1\\n"',
      '"0.1e0000"',
      `"0.1${'0'.repeat(90)}"`,
      `0.1${'0'.repeat(90)}`,
    ],
    ...[`"${'0'.repeat(90)}.1"`, `{"value":" 0.1"}`, `0.1${'0'.repeat(60_000)}`],
  ])('read the odd spelling %.24s as a lenient upstream would: as the nearest double', (json) => {
    expect(fromAmountOf(json)).toEqual({ text: '0.1', canonical: '0.1', isNumber: true })
  })

  it.each(['null', '1', '""', '["ETH_USDC"]', '{}'])('have no pair in %s', (json) => {
    expect(orderOf(`{"pairId":${json}}`).pair).toBeUndefined()
  })
})

describe('the quote ids of an order', () => {
  it('are taken from every field of the setting, in its order', () => {
    expect(orderOf('{"id":"c","quote":{"id":"b"},"quoteId":"a"}').quoteIds).toEqual([
      { id: 'a', isBare: false },
      { id: 'b', isBare: false },
      { id: 'c', isBare: true },
    ])
    expect(
      readOrder(Buffer.from('{"a":{"b":{"c":"x"}}}'), { quoteIdFields: ['a.b.c'] }).order?.quoteIds,
    ).toEqual([{ id: 'x', isBare: false }])
  })

  it.each([
    ['{"id":12345678901234567890}', '12345678901234567890'],
    ['{"id":1.0}', '1.0'],
    ['{"id":"\\u0041"}', 'A'],
  ])('are read from %s as text', (body, id) => expect(orderOf(body).quoteIds).toEqual([{ id, isBare: true }]))

  it.each([
    '{"id":""}',
    '{"id":null}',
    '{"id":{}}',
    '{"id":["x"]}',
    '{"quote":"x"}',
    '{"quote.id":"x"}',
    '{"quote":[]}',
  ])('are absent from %s', (body) => expect(orderOf(body).quoteIds).toEqual([]))

  it('are not found inside the text of a number', () => {
    expect(readOrder(Buffer.from('{"id":5}'), { quoteIdFields: ['id.value'] }).order?.quoteIds).toEqual([])
  })
})

describe('keys with a meaning in JavaScript', () => {
  const inherited = '{"quoteId":"x","id":"y","pairId":"P","fromAmount":1,"toAmount":1}'

  it.each(['__proto__', 'constructor', 'prototype', '\\u005f_proto__'])(
    '%s adds nothing to an order',
    (key) => {
      expect(orderOf(`{"${key}":${inherited}}`)).toEqual(orderOf('{}'))
      expect(orderOf(`{"quote":{"${key}":${inherited}}}`).quoteIds).toEqual([])
      expect(orderOf(`{"fromAmount":{"${key}":{"value":"1"}}}`).fromAmount).toBeUndefined()
      expect(Object.keys(Object.prototype)).toEqual([])
      expect(Object.hasOwn(Object.prototype, 'quoteId')).toBe(false)
    },
  )

  it('give no id to a setting that names them', () => {
    const quoteIdFields = ['constructor.name', '__proto__.constructor.name', 'id.length', 'toString']
    expect(readOrder(Buffer.from('{"id":"x"}'), { quoteIdFields }).order?.quoteIds).toEqual([])
  })

  it('and whatever else an object may inherit are not part of an order', () => {
    const inherited = ['quoteId', 'pairId', 'fromAmount', 'toAmount']
    for (const name of inherited)
      Object.defineProperty(Object.prototype, name, { value: '1', configurable: true })
    try {
      expect(orderOf('{}')).toEqual({
        quoteIds: [],
        pair: undefined,
        fromAmount: undefined,
        toAmount: undefined,
      })
    } finally {
      for (const name of inherited) Reflect.deleteProperty(Object.prototype, name)
    }
  })

  it('are ambiguous twice, like any other', () => {
    expect(read('{"__proto__":1,"__proto__":1}').problem).toMatch(/same key twice/)
    expect(read('{"__proto__":{"a":1},"a":1}').problem).toBeUndefined()
  })

  it("an object that looks like the parser's own number type is not read as a number", () => {
    expect(orderOf('{"id":{"value":"x","isLosslessNumber":true}}').quoteIds).toEqual([])
  })
})

// Bodies that are not JSON: test/property/orders.test.ts, and one of each kind in test/routes/orders-bodies.test.ts.
describe('a body is refused', () => {
  it('that is empty', () => expect(read('').problem).toMatch(/empty/))

  it.each(['[]', '[{}]', '1', '"x"', 'null', 'true'])('that is not an object: %s', (body) => {
    expect(read(body).problem).toMatch(/not a JSON object/)
  })

  it('that is not UTF-8', () => {
    expect(readOrder(Buffer.from('{"id":"\xe9"}', 'latin1'), fields).problem).toMatch(/UTF-8/)
    expect(readOrder(Buffer.from('{"id":"x"}', 'utf16le'), fields).problem).toBeDefined()
  })

  it('that starts with a byte order mark', () => {
    expect(read('\ufeff{}').problem).toMatch(/byte order mark/)
  })

  it.each([
    '{"pairId":"A","pairId":"B"}',
    '{"pairId":"A","pairId":"A"}',
    '{"fromAmount":1,"fromAmount":1}',
    '{"fromAmount":1,"from\\u0041mount":1}',
    '{"a":{"b":[{"c":1,"c":1}]}}',
    '{"a":{},"a":[]}',
    '{"a":{"b":1},"a":{"b":1}}',
    '[{"a":1,"a":1}]',
  ])('with the same key twice: %s', (body) => expect(read(body).problem).toMatch(/same key twice/))

  it('at the first repeated key, without reading the thousands after it', () => {
    const large = `{${Array.from({ length: 8_000 }, (_, index) => `"${index}":1`).join()}}`
    const body = `{"a":${large},${Array.from({ length: 6_000 }, () => '"a":{}').join()}}`
    const startMs = performance.now()
    expect(read(body).problem).toMatch(/same key twice/)
    // A twentieth of this, cold; comparing each of them takes four times as much.
    expect(performance.now() - startMs).toBeLessThan(1_000)
  })

  it('unless a key repeats only in another object, or in a text with a colon', () => {
    expect(
      read('{"id":"a:b","quote":{"id":"\\":{[\\\\"},"list":[{"id":1},{"id":1}]}').problem,
    ).toBeUndefined()
  })

  it('past 32 levels, counted outside of strings', () => {
    expect(read(nested(32)).problem).toBeUndefined()
    expect(read(nested(33)).problem).toMatch(/32 levels/)
    expect(read(`{"a":"${'{['.repeat(40)}","b":"\\"${'['.repeat(40)}"}`).problem).toBeUndefined()
    expect(read(`{"a":"\\\\","b":${nested(32)}}`).problem).toMatch(/32 levels/)
  })

  it('of 64 KiB of brackets, before the parser would overflow the stack', () => {
    for (const open of ['[', '{"a":'])
      expect(read(open.repeat(65_536 / open.length)).problem).toMatch(/32 levels/)
  })
})
