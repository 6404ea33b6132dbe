/** Cuts what a client may have made long, so that a row of the console stays a row. */
export function short(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200)}…`
}
