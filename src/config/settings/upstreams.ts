import type { z } from 'zod'
import {
  type BaseUrlSetting,
  type DeclaredSetting,
  type PathsSetting,
  type UpstreamFacts,
  upstreamTable,
} from '../../http/upstreams.ts'
import { facts, type SettingFacts } from '../setting-facts.ts'
import { anyText, baseUrl, baseUrlOrSandbox, filePath, headerValue, pathPrefixes } from '../value-schemas.ts'

type TableSettings = Record<BaseUrlSetting, z.ZodType<string | undefined>> &
  Record<PathsSetting, z.ZodType<string[]>>

/** The base URLs, and the paths that a setting lists. */
function tableSettings(): TableSettings {
  const rows = Object.values<UpstreamFacts>(upstreamTable).flatMap(({ baseUrl: url, paths }) => {
    const schema = url.maySandbox ? baseUrlOrSandbox : baseUrl
    const rowOfUrl = [url.setting, declared(schema, url, { secret: 'in-url' })] as const
    return 'setting' in paths
      ? [rowOfUrl, [paths.setting, declared(pathPrefixes, paths)] as const]
      : [rowOfUrl]
  })
  return Object.fromEntries<z.ZodType>(rows) as TableSettings
}

function declared(
  schema: typeof baseUrl | typeof baseUrlOrSandbox | typeof pathPrefixes,
  { default: text, defaultText, meaning }: DeclaredSetting,
  more: Pick<SettingFacts, 'secret'> = {},
): z.ZodType {
  const row = { meaning, ...(defaultText === undefined ? {} : { defaultText }), ...more }
  return text === undefined
    ? schema.optional().register(facts, row)
    : schema.prefault(text).register(facts, row)
}

export const upstreamSettings = {
  NODE_ENV: anyText
    .toLowerCase()
    .optional()
    .register(facts, {
      meaning:
        'production makes SWAP_BASE_URL required and refuses the sandbox, so that the sandbox never serves real ' +
        'users by accident. Any other value changes nothing.',
    }),
  ...tableSettings(),
  SWAP_APP_NAME: headerValue.optional().register(facts, {
    meaning: 'App-Name sent to the swap upstream when the caller sent none.',
  }),
  SWAP_APP_VERSION: headerValue.optional().register(facts, {
    meaning: 'App-Version sent to the swap upstream when the caller sent none.',
  }),
  SWAP_AUTHORIZATION: headerValue.optional().register(facts, {
    secret: 'whole',
    meaning:
      'Authorization sent to the swap upstream when the caller sent none. Anyone who reaches the traffic port ' +
      'then uses this key: keep HOST on loopback, or the port behind something that checks callers.',
  }),
  SWAP_AUTHORIZATION_FILE: filePath.optional().register(facts, {
    secret: 'unless-path',
    meaning:
      'A file that holds SWAP_AUTHORIZATION, in place of SWAP_AUTHORIZATION. It is read at startup; its last newline is cut.',
  }),
}
