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
const nested = (levels: number) =>
  `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`

const seen =
  '{"pairId":"ETH_USDC","fromAmount":0.1,"fromAddress":"0x1","toAddress":"0x2","toAmount":289.645,"slippage":0.5}'

const nothing = {
  quoteIds: [],
  pair: undefined,
  fromAmount: undefined,
  toAmount: undefined,
}

describe('the terms of an order', () => {
  it('are read from the order of a published program, and are all absent in an empty object', () => {
    expect(orderOf(seen)).toEqual({
      quoteIds: [],
      pair: 'ETH_USDC',
      surePair: 'ETH_USDC',
      foldedPair: 'ETH_USDC',
      fromAmount: { text: '0.1', canonical: '0.1', isNumber: true },
      toAmount: { text: '289.645', canonical: '289.645', isNumber: true },
      toAddress: '0x2',
    })
    expect(orderOf(' {} \r\n')).toEqual(nothing)
  })

  it.each([
    // A number means its nearest double, a text the digits that it has.
    ['0.10000000000000001', '0.10000000000000001', '0.1', true],
    ['"0.10000000000000001"', '0.10000000000000001', '0.10000000000000001', false],
    ['9007199254740993', '9007199254740993', '9007199254740992', true],
    ['1E+21', '1E+21', '1000000000000000000000', true],
    ['0', '0', '0', true],
    ['"1e-1"', '1e-1', '0.1', false],
    ['{"assetId":"ETH","value":"0.10"}', '0.10', '0.1', false],
    ['{"value":0.10,"assetId":"ETH"}', '0.10', '0.1', true],
    // As a lenient upstream would read an odd spelling: as the nearest double.
    ...[
      '" 0.1"',
      '"0.1 "',
      '"+0.1"',
      '"\\t0.1\\n"',
      '"0.1e0000"',
      '{"value":" 0.1"}',
    ].map(odd),
    ...[
      `"${'0'.repeat(90)}.1"`,
      `"0.1${'0'.repeat(90)}"`,
      `0.1${'0'.repeat(60_000)}`,
    ].map(odd),
  ])('have the amount of %.40s as it is spelled', (json, text, canonical, isNumber) => {
    expect(fromAmountOf(json)).toEqual({ text, canonical, isNumber })
  })

  it.each([
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
    '[]',
    '[1]',
    '["1"]',
    '1e80',
    '1e9999999',
    `1${'0'.repeat(80)}`,
    `"${'9'.repeat(81)}"`,
    '{"value":["1"]}',
    '{"value":{"value":"1"}}',
  ])('distinguish %s, which is not an amount, from an absent amount', (json) => {
    expect(fromAmountOf(json)).toBeUndefined()
    expect(orderOf(`{"toAmount":${json}}`).toAmount).toBe('unreadable')
  })

  it.each(['null', '{}', '{"value":null}', '{"assetId":"ETH"}'])(
    'have no amount in %s',
    (json) => {
      expect(fromAmountOf(json)).toBeUndefined()
      expect(orderOf(`{"toAmount":${json}}`).toAmount).toBeUndefined()
    },
  )

  it.each(['null', '1', '""', '["ETH_USDC"]', '{}'])('have no pair in %s', (json) => {
    expect(orderOf(`{"pairId":${json}}`).pair).toBeUndefined()
  })
})

function odd(json: string): [string, string, string, boolean] {
  return [json, '0.1', '0.1', true]
}

describe('the quote ids of an order', () => {
  it('are taken from every field of the setting, in its order', () => {
    expect(orderOf('{"id":"c","quote":{"id":"b"},"quoteId":"a"}').quoteIds).toEqual([
      { id: 'a', isBare: false },
      { id: 'b', isBare: false },
      { id: 'c', isBare: true },
    ])
    expect(idsIn('{"a":{"b":{"c":"x"}}}', 'a.b.c')).toEqual([{ id: 'x', isBare: false }])
  })

  it.each([
    ['12345678901234567890', '12345678901234567890'],
    ['1.0', '1.0'],
    ['"\\u0041"', 'A'],
  ])('are read from %s as text', (json, id) =>
    expect(idsIn(`{"id":${json}}`)).toEqual([{ id, isBare: true }]),
  )

  it.each([
    '{"id":""}',
    '{"id":null}',
    '{"id":{}}',
    '{"id":["x"]}',
    '{"quote":"x"}',
    '{"quote.id":"x"}',
    '{"quote":[]}',
    // An object that looks like the parser's own number type.
    '{"id":{"value":"x","isLosslessNumber":true}}',
  ])('are absent from %s', (body) => expect(orderOf(body).quoteIds).toEqual([]))

  it('are not found inside the text of a number, or in what an object inherits', () => {
    expect(idsIn('{"id":5}', 'id.value')).toEqual([])
    const inherited = [
      'constructor.name',
      '__proto__.constructor.name',
      'id.length',
      'toString',
    ]
    expect(idsIn('{"id":"x"}', ...inherited)).toEqual([])
  })
})

function idsIn(text: string, ...quoteIdFields: string[]) {
  const options = quoteIdFields.length === 0 ? fields : { quoteIdFields }
  return readOrder(Buffer.from(text), options).order?.quoteIds
}

describe('keys with a meaning in JavaScript', () => {
  const inherited = '{"quoteId":"x","id":"y","pairId":"P","fromAmount":1,"toAmount":1}'

  it.each(['__proto__', 'constructor', 'prototype', '\\u005f_proto__'])(
    '%s adds nothing to an order',
    (key) => {
      expect(orderOf(`{"${key}":${inherited}}`)).toEqual(nothing)
      expect(orderOf(`{"quote":{"${key}":${inherited}}}`).quoteIds).toEqual([])
      expect(
        orderOf(`{"fromAmount":{"${key}":{"value":"1"}}}`).fromAmount,
      ).toBeUndefined()
      expect(Object.keys(Object.prototype)).toEqual([])
    },
  )

  it('and what an object inherits otherwise is not part of it', () => {
    Object.defineProperty(Object.prototype, 'quoteId', { value: '1', configurable: true })
    const order = orderOf('{}')
    Reflect.deleteProperty(Object.prototype, 'quoteId')
    expect(order).toEqual(nothing)
  })
})

// Bodies that are not JSON: test/property/orders.test.ts, and one of each kind in test/routes/orders-bodies.test.ts.
describe('a body is refused', () => {
  it.each([
    ['', /empty/],
    ...['[]', '[{}]', '1', '"x"', 'null'].map((body): [string, RegExp] => [
      body,
      /not a JSON object/,
    ]),
    [Buffer.from('{"id":"\xe9"}', 'latin1'), /UTF-8/],
    [Buffer.from('{"id":"x"}', 'utf16le'), /./],
    ['\ufeff{}', /byte order mark/],
    ['{"pairId":"A","pairId":"A"}', /same key twice/],
    ['{"fromAmount":1,"from\\u0041mount":1}', /same key twice/],
    ['{"a":{"b":[{"c":1,"c":1}]}}', /same key twice/],
    ['{"a":{},"a":[]}', /same key twice/],
    ['{"a":{"b":1},"a":{"b":1}}', /same key twice/],
    ['[{"a":1,"a":1}]', /same key twice/],
    ['{"__proto__":1,"__proto__":1}', /same key twice/],
    [nested(33), /32 levels/],
    [`{"a":"\\\\","b":${nested(32)}}`, /32 levels/],
    // Before the parser would overflow the stack.
    ['['.repeat(65_536), /32 levels/],
    ['{"a":'.repeat(11_000), /32 levels/],
  ])('%#: %.30s', (body, word) =>
    expect(readOrder(Buffer.from(body as string), fields).problem).toMatch(word),
  )

  it.each([
    '{"id":"a:b","quote":{"id":"\\":{[\\\\"},"list":[{"id":1},{"id":1}]}',
    '{"__proto__":{"a":1},"a":1}',
    nested(32),
    `{"a":"${'{['.repeat(40)}","b":"\\"${'['.repeat(40)}"}`,
  ])('but not %.60s', (body) => expect(read(body).problem).toBeUndefined())

  it('at the first repeated key, without reading the thousands after it', () => {
    const large = `{${Array.from({ length: 8_000 }, (_, index) => `"${index}":1`).join()}}`
    const body = `{"a":${large},${Array.from({ length: 6_000 }, () => '"a":{}').join()}}`
    const before = process.cpuUsage()
    expect(read(body).problem).toMatch(/same key twice/)
    // A twentieth of this, cold; comparing each of them takes four times as much.
    expect(process.cpuUsage(before).user).toBeLessThan(1_000_000)
  })
})
