import { z } from 'zod'

/** What the texts about a setting need to know beyond its schema. */
export interface SettingFacts {
  meaning: string
  /** For a default that depends on other settings. */
  defaultText?: string
  /** What is masked wherever the value is shown: all of it, or the parts of a URL that may hold a secret. */
  secret?: 'whole' | 'in-url'
}

export const facts = z.registry<SettingFacts>()
