const maxLength = 512

/** A client's text, cut so that one request makes no long line. */
export function loggedText(text: string | undefined): string | undefined {
  return text === undefined || text.length <= maxLength ? text : `${text.slice(0, maxLength)}…`
}
