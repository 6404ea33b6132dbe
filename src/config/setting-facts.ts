import { z } from 'zod'

/** What the texts about a setting need to know beyond its schema. */
export interface SettingFacts {
  meaning: string
  /** One that a team sets: --help lists it. */
  team?: boolean
  /** For a default that depends on other settings. */
  defaultText?: string
  /**
   * What is masked wherever the value is shown: all of it, the parts of a URL that may hold a secret, or what does not
   * look like a path, because it may be the secret that belongs into the file.
   */
  secret?: 'whole' | 'in-url' | 'unless-path'
}

/** @internal */
export const facts = z.registry<SettingFacts>()
