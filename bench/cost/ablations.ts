/** An edit of one file: a text that has to be in it once, and what stands in its place. */
export type Edit = readonly [file: string, from: string, to: string]

/** Something that is taken away, to measure what it costs. Each breaks a promise: these builds are for measuring only. */
export interface Ablation {
  name: string
  /** Of the program: what belongs together is taken away together, too. */
  part: Part
  /** Undefined: every way. */
  ways?: readonly WayName[]
  edits: readonly Edit[]
}

export type Part =
  | 'listening'
  | 'reading the request'
  | 'reading the quote'
  | 'keeping'
  | 'the guard'
  | 'headers'
  | 'the call'

export type WayName = 'GET' | 'hit' | 'miss' | 'order'

const calls: readonly WayName[] = ['GET', 'miss', 'order']

/** No two of them edit the same lines, so that one build can have all of them. */
export const ablations: readonly Ablation[] = [
  {
    name: 'the metrics',
    part: 'listening',
    edits: [['src/gateway/parts.ts', '    metrics.listener,\n', '']],
  },
  {
    name: "the log's look at events",
    part: 'listening',
    edits: [['src/gateway/parts.ts', '    ...heard,\n', '']],
  },
  {
    name: "the console's history",
    part: 'listening',
    edits: [
      [
        'src/gateway/parts.ts',
        '    history,\n    recent,\n    outages,\n    addressNotes,\n  ])',
        '    recent,\n    outages,\n    addressNotes,\n  ])',
      ],
    ],
  },
  {
    name: "the console's recent requests",
    part: 'listening',
    edits: [
      [
        'src/gateway/parts.ts',
        '    recent,\n    outages,\n    addressNotes,\n  ])',
        '    outages,\n    addressNotes,\n  ])',
      ],
    ],
  },
  {
    name: 'the checks of heads',
    part: 'reading the request',
    edits: [
      [
        'src/server/traffic-server.ts',
        'const refusal = headRefusal(request)',
        'const refusal = undefined',
      ],
    ],
  },
  {
    name: 'the order of answers on a connection',
    part: 'reading the request',
    edits: [
      [
        'src/server/traffic-server.ts',
        'pipeline.take(request, response, serve)\n    },',
        'serve(request, response)\n    },',
      ],
    ],
  },
  {
    name: 'which request is what',
    part: 'reading the request',
    ways: ['miss'],
    edits: [
      [
        'src/http/area.ts',
        "    if (rawTarget === '*') return { asterisk: true }",
        "    const canonical = rawTarget.slice(rawTarget.indexOf('amount=') + 7)\n" +
          "    const read = { pair: 'ETH_USDC', canonical, otherParameters: '' }\n" +
          "    if (rawTarget.startsWith('/v3/pairs/'))\n" +
          "      return { target: rawTarget, path: rawTarget, area: 'quote', upstream: 'swap', quote: read, route: '' } as never\n" +
          "    if (rawTarget === '*') return { asterisk: true }",
      ],
    ],
  },
  {
    name: "the user's address",
    part: 'reading the request',
    ways: ['hit', 'miss', 'order'],
    edits: [
      [
        'src/client/client-address.ts',
        '    const peer = this.#peerOf(socket.remoteAddress)\n    const user = this.#userOf(peer, rawHeaders)\n    if (user.note',
        "    const user: UserAddress = { address: '198.51.100.1', peer: '127.0.0.1', peerTrusted: true }\n" +
          '    const peer = unknownPeer\n    if (user.note',
      ],
    ],
  },
  {
    name: 'the digest of the key',
    part: 'reading the request',
    ways: ['hit', 'miss'],
    edits: [
      [
        'src/quotes/request.ts',
        "return hash('sha256', text, 'base64url')",
        'return text',
      ],
    ],
  },
  {
    name: 'JSON',
    part: 'reading the quote',
    ways: ['miss'],
    edits: [
      [
        'src/quotes/quote.ts',
        'asked?: string): Stated | NotKeptReason {\n  const json = jsonIn(body)',
        'asked?: string): Stated | NotKeptReason {\n' +
          "  const json = { id: body.latin1Slice(56, 156), pairId: 'ETH_USDC', fromAmount: { assetId: 'ETH', value: asked },\n" +
          "    toAmount: { assetId: 'USDC', value: '289.645' }, expiry: Date.now() + 3_600_000 }",
      ],
    ],
  },
  {
    name: 'the check of its shape',
    part: 'reading the quote',
    ways: ['miss'],
    edits: [
      [
        'src/quotes/quote.ts',
        'const parsed = quoteWithoutExpiry.safeParse(json)',
        'const parsed = { success: true, data: json as never } as ReturnType<typeof quoteWithoutExpiry.safeParse>',
      ],
    ],
  },
  {
    name: 'Date and Age of the answer',
    part: 'reading the quote',
    ways: ['miss'],
    edits: [
      [
        'src/quotes/ends.ts',
        "function readDate({ date, age = '0', receivedAtMs }: DatedAnswer): number | undefined {\n",
        "function readDate({ date, age = '0', receivedAtMs }: DatedAnswer): number | undefined {\n  if (age === '0') return undefined\n",
      ],
    ],
  },
  {
    name: "the ledger's note",
    part: 'keeping',
    ways: ['miss'],
    edits: [
      [
        'src/quotes/route.ts',
        'const noted = quote && notes.note(quote, request, at)',
        'const noted = undefined',
      ],
    ],
  },
  {
    name: "the cache's entry",
    part: 'keeping',
    ways: ['miss'],
    edits: [
      [
        'src/quotes/route.ts',
        "return cache.keep(request.key, quote, at, { isRefresh }) ? undefined : 'too-large'",
        'return isRefresh || at === undefined || cache === undefined ? undefined : undefined',
      ],
    ],
  },
  {
    name: 'the holds that may begin meanwhile',
    part: 'keeping',
    ways: ['miss'],
    edits: [
      [
        'src/quotes/route.ts',
        'const stopHearingHolds = holds.whenHeld(holdable, (problem) => waiting.leave(problem))',
        'const stopHearingHolds = () => {}',
      ],
    ],
  },
  {
    name: 'the calls that others join',
    part: 'keeping',
    ways: ['miss'],
    edits: [
      [
        'src/quotes/flight.ts',
        'if (this.entry !== undefined) this.#table.set(this.entry, this)',
        '',
      ],
    ],
  },
  {
    name: 'JSON with all digits',
    part: 'the guard',
    ways: ['order'],
    edits: [
      [
        'src/orders/order-terms.ts',
        'json = parseJson(text)',
        'json = (globalThis as { order?: unknown }).order ??= parseJson(text)',
      ],
    ],
  },
  {
    name: 'the verdict',
    part: 'the guard',
    ways: ['order'],
    edits: [
      [
        'src/orders/guard.ts',
        'const verdict = new Judgement({\n      ...inputs,\n      judging: this.judging,\n      restoredMayRefuse: true,\n    }).verdict\n',
        'const known = globalThis as { verdict?: Verdict }\n' +
          '    const verdict = (known.verdict ??= new Judgement({ ...inputs, judging: this.judging, restoredMayRefuse: true }).verdict)\n',
      ],
    ],
  },
  {
    name: 'that its quote was used',
    part: 'the guard',
    ways: ['order'],
    edits: [
      [
        'src/orders/route.ts',
        'used !== undefined && memory.uses.noteSent(used, partition)',
        'false',
      ],
      [
        'src/orders/route.ts',
        'if (used !== undefined && mayBeAccepted(status)) memory.uses.use(used)',
        'if (status > 0) void 0',
      ],
    ],
  },
  {
    name: 'the headers to the upstream',
    part: 'headers',
    ways: ['GET', 'order'],
    edits: [
      [
        'src/server/swap-headers.ts',
        '  const headers = endToEndHeaders(request.rawHeaders, dropsNeverForwarded)\n  return request',
        '  const headers = request.rawHeaders.slice(2)\n  return request',
      ],
      [
        'src/server/swap-headers.ts',
        '    const { address } = exchange.identify(this.#users)\n    const [appName, via]',
        '    exchange.identify(this.#users)\n    if (isOrder) return rawHeaders.slice(2)\n' +
          '    const address = undefined\n    const [appName, via]',
      ],
    ],
  },
  {
    name: 'the headers of the answer',
    part: 'headers',
    ways: calls,
    edits: [
      [
        'src/quotes/quote.ts',
        'const headers = answerHeaders(status, rawHeaders, dropsCookies)',
        'const headers = rawHeaders',
      ],
      [
        'src/quotes/quote.ts',
        'status === 200 ? this.#oneList(repeatableHeaders(rawHeaders)) : headers',
        'status === 200 ? this.#oneList(oneType) : headers',
      ],
      [
        'src/quotes/quote.ts',
        'export class AnswerReader {',
        "const oneType = ['Content-Type', 'application/json']\nexport class AnswerReader {",
      ],
      [
        'src/quotes/answer.ts',
        '    const end = endOf(answer)\n    const unknown',
        "    const quick = 'HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: ' + body.length + '\\r\\n'\n" +
          '    if (response instanceof TrafficResponse && response.writeWhole(quick, body.latin1Slice())) return\n' +
          '    const end = endOf(answer)\n    const unknown',
      ],
      [
        'src/upstream/relay.ts',
        '    const headers = answerHeaders(status, rawHeaders)\n    if (ownHeaders)',
        '    const headers = rawHeaders\n    if (ownHeaders)',
      ],
      [
        'src/orders/problems.ts',
        '  const headers = answerHeaders(status, rawHeaders)\n  headers.push(...ownRequestId',
        '  const headers = rawHeaders\n  headers.push(...ownRequestId',
      ],
    ],
  },
  {
    name: 'the deadline of a call',
    part: 'the call',
    ways: ['miss', 'order'],
    edits: [
      [
        'src/upstream/fetch.ts',
        'this.#deadline = new PatientTimer(leftMs, onTime, timers)',
        'void [PatientTimer, leftMs, onTime]',
      ],
    ],
  },
  {
    name: "undici's deadlines",
    part: 'the call',
    ways: calls,
    edits: [
      [
        'src/upstream/upstream.ts',
        'headersTimeout: limits.headersTimeoutMs',
        'headersTimeout: 0',
      ],
      [
        'src/upstream/upstream.ts',
        'bodyTimeout: limits.bodyTimeoutMs,\n        keep',
        'bodyTimeout: 0,\n        keep',
      ],
    ],
  },
  {
    name: 'breakers and permits',
    part: 'the call',
    ways: calls,
    edits: [
      [
        'src/upstream/upstream.ts',
        'const permit = this.throwIfKeptBack(kind, { bodyStreams })?.admit()',
        'const permit = undefined',
      ],
      [
        'src/upstream/connections.ts',
        'const permit = breaker.admit()',
        'const permit = anyPermit',
      ],
      [
        'src/upstream/connections.ts',
        'export interface ConnectionHolder {',
        'const anyPermit = { succeeded() {}, failed() {}, abandoned() {}, answerBegan() {} } as unknown as Permit\nexport interface ConnectionHolder {',
      ],
      [
        'src/upstream/call.ts',
        '    this.#upstream.breakers.states.connections.close()\n',
        '',
      ],
    ],
  },
  {
    name: 'the turn before a connection is free',
    part: 'the call',
    ways: calls,
    edits: [
      [
        'src/upstream/connections.ts',
        'setImmediate(this.#release, connection, holder)',
        'this.#release(connection, holder)',
      ],
    ],
  },
  {
    name: 'two of the three steps that are awaited',
    part: 'the call',
    ways: ['miss'],
    edits: [
      ['src/quotes/route.ts', '    await call.written()\n    events', '    events'],
      [
        'src/quotes/route.ts',
        'const head = await call.head()',
        'const head = await call.whole()',
      ],
    ],
  },
  {
    name: "undici's parsed headers",
    part: 'headers',
    ways: calls,
    edits: [
      [
        'node_modules/undici/lib/handler/unwrap-handler.js',
        'parseHeaders(rawHeaders), statusMessage',
        '{}, statusMessage',
      ],
    ],
  },
]
