import { cutText } from '../process/text.ts'

/** A list may be an array. */
export type SettingValue = string | number | boolean | readonly (string | number)[]

/** The message is what would be right. It repeats nothing, because the value may be a secret. */
export class Wrong extends Error {}

export interface SettingProblem {
  name: string
  /** Masked if secret. */
  value: string | undefined
  expected: string
  /** Default: `name=value - expected: expected`. */
  message?: string
}

export class SettingsError extends Error {
  readonly problems: readonly SettingProblem[]

  constructor(problems: readonly SettingProblem[]) {
    const count =
      problems.length === 1
        ? 'There is a problem'
        : `There are ${problems.length} problems`
    const lines = problems.map(({ name, value, expected, message }) => {
      const shown = value === undefined ? `${name} is not set` : `${name}=${value}`
      return `  ${message ?? `${shown} - expected: ${expected}`}`
    })
    super([`${count} with the settings:`, ...lines].join('\n'))
    this.name = 'SettingsError'
    this.problems = problems
  }
}

/** Makes one line of limited length: control characters could rewrite a terminal's lines. */
export function onOneLine(text: string): string {
  return cutText(text, 200).replace(
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g,
    (character) => {
      return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
    },
  )
}
