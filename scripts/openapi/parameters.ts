import { pascalCase } from './references.ts'

const schema = { type: 'string' }
const inQuery = (name: string, example: string) => ({
  name,
  in: 'query',
  schema,
  example,
})
const inPath = (name: string, more: object) => ({
  name,
  in: 'path',
  required: true,
  schema,
  ...more,
})
const inHeader = (name: string, description?: string, more?: object) => ({
  name,
  in: 'header',
  description,
  schema,
  ...more,
})

const all = [
  inPath('pairId', { example: 'ETH_USDC' }),
  inPath('path', {
    description: 'It may have slashes.',
    examples: {
      swap: { value: 'v3/assets' },
      payments: { value: 'checkouts' },
      webhooks: { value: 'webhooks' },
      nowhere: { value: 'nowhere' },
    },
  }),
  {
    ...inQuery('amount', '0.1'),
    required: true,
    description:
      'In the unit of the "from" asset: a positive decimal, plain or with an exponent (`1e-7`), of at most 80 digits ' +
      'and three of exponent, given once. `0.1`, `0.10` and `1e-1` are one quote; the provider gets what was written.',
    schema: {
      ...schema,
      pattern: '^[0-9]*\\.?[0-9]*([eE][-+]?[0-9]{1,3})?$',
      minLength: 1,
      maxLength: 90,
    },
  },
  inQuery('fromAddress', '0xfrom'),
  inQuery('fromAsset', 'ETH'),
  inQuery('toAddress', '0xto'),
  inQuery('toAsset', 'USDC'),
  inHeader(
    'App-Name',
    'The application: the provider decides by it. Required unless SWAP_APP_NAME is set; without either a quote is ' +
      'refused here.',
    { required: true, example: 'demo' },
  ),
  inHeader('App-Version'),
  inHeader('User-Agent'),
  inHeader(
    'Forwarded',
    'The client’s address (RFC 7239), believed from peers in TRUST_PROXY alone; CLIENT_IP_HEADER may name another ' +
      'header. The provider gets one clean element.',
    { example: 'for="[2001:db8::17]"' },
  ),
  inHeader(
    'Idempotency-Key',
    'A key made when the user clicks, such as a UUID: 1 to 255 visible ASCII characters, in quotes or without. The order ' +
      'is sent once for it, and its answer is given again for 24 hours. Sent on.',
  ),
  inHeader(
    'Quotegate-Quote',
    'The id of the order’s quote, once: that quote alone decides. For the gateway: not sent on. Empty counts as absent.',
  ),
  inHeader(
    'X-Request-Id',
    'Comes back, and goes to the provider, if it is fit to be logged.',
  ),
]

export const parameterComponents = Object.fromEntries(
  all.map((parameter) => [pascalCase(parameter.name), parameter]),
)
