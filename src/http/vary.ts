import { headerValues } from './headers.ts'

/**
 * Adds names to the Vary of an answer (RFC 9110 12.5.5): its own members stay, on one line at the end, and none comes
 * twice. `Vary: *` stays as it is, because it says more than any name.
 */
export function createVary(names: readonly string[]): (headers: readonly string[]) => string[] {
  return (headers) => {
    const received = headerValues(headers, 'vary')
      .flatMap((line) => line.split(','))
      .map((member) => member.trim())
      .filter((member) => member !== '')
    if (received.includes('*')) return [...headers]
    const byLowerCase = new Map([...names, ...received].map((name) => [name.toLowerCase(), name]))
    const others = headers.filter((_, index) => headers[index - (index % 2)]?.toLowerCase() !== 'vary')
    return [...others, 'Vary', [...byLowerCase.values()].join(', ')]
  }
}
