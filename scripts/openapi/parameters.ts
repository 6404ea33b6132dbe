const text = { type: 'string' }

function inPath(name: string, description: string, example: string): object {
  return { name, in: 'path', required: true, description, schema: text, example }
}

function inQuery(name: string, description: string, example: string): object {
  return { name, in: 'query', description, schema: text, example }
}

function header(name: string, description: string, more: object = {}): object {
  return { name, in: 'header', description, schema: text, ...more }
}

/** By their name among the components. */
export const parameters: Record<string, object> = {
  PairId: inPath('pairId', 'From the list of pairs.', 'ETH_USDC'),
  Id: inPath('id', 'As the upstream gave it.', 'a1b2'),
  Rest: inPath('rest', 'The rest of the path; it may have slashes.', 'anything'),
  Elsewhere: inPath('elsewhere', 'The path; it may have slashes.', 'nowhere'),
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
  AssetId: inPath('id', 'From the list of assets.', 'USDC'),
  From: inQuery('from', 'The asset that is swapped.', 'ETH'),
  To: inQuery('to', 'The asset that is received.', 'USDC'),
  Format: inQuery('format', '`json`, which is the default, or `csv`.', 'json'),
  Networks: inQuery('networks', 'Networks, separated by commas.', 'ethereum,solana'),
  Query: inQuery('query', 'A text to look for.', 'usd'),
  Limit: inQuery('limit', 'How many there are on a page.', '2'),
  Page: inQuery('page', 'Which page.', '1'),
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
  QuotegateQuote: header(
    'Quotegate-Quote',
    'The id of the order’s quote, once: that quote alone decides. For the gateway: not sent on. Empty counts as absent.',
  ),
  XRequestId: header('X-Request-Id', 'Comes back, and goes to the provider, if it is fit to be logged.'),
}
