const text = { type: 'string' }

function inQuery(name: string, description: string, example: string): object {
  return { name, in: 'query', description, schema: text, example }
}

function header(name: string, description: string, more: object = {}): object {
  return { name, in: 'header', description, schema: text, ...more }
}

/** By their name among the components. */
export const parameters: Record<string, object> = {
  PairId: {
    name: 'pairId',
    in: 'path',
    required: true,
    description: 'From the list of pairs.',
    schema: text,
    example: 'ETH_USDC',
  },
  Path: {
    name: 'path',
    in: 'path',
    required: true,
    description: 'The path; it may have slashes.',
    schema: text,
    examples: {
      swap: { value: 'v3/assets' },
      payments: { value: 'checkouts' },
      webhooks: { value: 'webhooks' },
      nowhere: { value: 'nowhere' },
    },
  },
  Amount: {
    name: 'amount',
    in: 'query',
    required: true,
    description:
      'In the unit of the "from" asset: a positive decimal, plain or with an exponent (`1e-7`), of at most 80 digits ' +
      'and three of exponent, given once. `0.1`, `0.10` and `1e-1` are one quote; the provider gets what was written.',
    schema: {
      type: 'string',
      pattern: '^[0-9]*\\.?[0-9]*([eE][-+]?[0-9]{1,3})?$',
      minLength: 1,
      maxLength: 90,
    },
    example: '0.1',
  },
  FromAddress: inQuery('fromAddress', 'Where the money comes from.', '0xfrom'),
  FromAsset: inQuery('fromAsset', 'What is swapped.', 'ETH'),
  ToAddress: inQuery('toAddress', 'Where the money goes.', '0xto'),
  ToAsset: inQuery('toAsset', 'What is received.', 'USDC'),
  AppName: header(
    'App-Name',
    'The application: the provider decides by it. Required unless SWAP_APP_NAME is set; without either a quote is ' +
      'refused here.',
    { required: true, example: 'demo' },
  ),
  AppVersion: header('App-Version', 'Its version.'),
  UserAgent: header('User-Agent', 'Part of what tells two quotes apart.'),
  Forwarded: header(
    'Forwarded',
    'The client’s address (RFC 7239), believed from peers in TRUST_PROXY alone; CLIENT_IP_HEADER may name another ' +
      'header. The provider gets one clean element.',
    { example: 'for="[2001:db8::17]"' },
  ),
  IdempotencyKey: header(
    'Idempotency-Key',
    'A key made when the user clicks, such as a UUID: 1 to 255 visible ASCII characters, in quotes or without. The order is sent ' +
      'once for it, and its answer is given again for 24 hours. Sent on.',
  ),
  QuotegateQuote: header(
    'Quotegate-Quote',
    'The id of the order’s quote, once: that quote alone decides. For the gateway: not sent on. Empty counts as absent.',
  ),
  XRequestId: header(
    'X-Request-Id',
    'Comes back, and goes to the provider, if it is fit to be logged.',
  ),
}
