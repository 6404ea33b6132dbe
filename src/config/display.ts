import type { SettingFacts } from './setting-facts.ts'
import { factsOf, type SettingName } from './settings.ts'

/** The value of a setting, fit for a terminal or a log: on one line, of limited length, without secrets. */
export function displaySetting(name: SettingName, text: string): string {
  return displayText(text, factsOf(name).secret)
}

export function displayText(text: string, secret?: SettingFacts['secret']): string {
  if (text === '') return text
  if (secret === 'whole' || (secret === 'unless-path' && !pathPattern.test(text))) return '****'
  const masked = secret === 'in-url' ? maskUrl(text) : text
  const short = masked.length > 200 ? `${masked.slice(0, 200)}…` : masked
  // Control characters could rewrite a terminal's lines.
  return short.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

const pathPattern = /^(?:\.{0,2}|[a-z]:)[\\/]\S*$/i

function maskUrl(text: string): string {
  return (
    text
      .replace(/^((?:https?|(?:redis|valkey)s?(?:\+\w+)?):\/\/)?.*@/is, '$1****@')
      .replace(/([?#]).*$/s, '$1****')
      // A password without a host after it: text after a colon that is not a port.
      .replace(/^((?:[a-z][\w+.-]*:\/\/)?(?![^/]*\[)[^:/]*:)(?!\/\/|\d{1,5}(?:[,/]|$))[^@]*$/is, '$1****')
  )
}
