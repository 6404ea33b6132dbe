/** A fenced block of a page. */
export interface Block {
  language: string
  text: string
  /** What the comment right before it says: `<!-- readme: … -->`. */
  mark: string
}

const fenced = /(?:^<!-- readme: (.+) -->\n)?^```(\w*)\n([\s\S]*?)^```$/gm

export function blocksOf(page: string): Block[] {
  return [...page.matchAll(fenced)].map(([, mark = '', language = '', text = '']) => ({
    language,
    text,
    mark,
  }))
}

/** Commands within a sentence. */
export function inlineCommandsOf(page: string): string[] {
  const prose = page.replace(fenced, '').replace(/<!--[\s\S]*?-->/g, '')
  const commands = [
    ...prose.matchAll(/`((?:npm|npx|node|docker|kubectl|curl|quotegate) [^`]+)`/g),
  ]
  return commands.map(([, command = '']) => command)
}

/** Commands that a comment says are not run, with the reason. */
export function notRunOf(page: string): string[] {
  const marks = [...page.matchAll(/<!-- readme: not run, because .{10,}: `(.+)` -->/g)]
  return marks.map(([, command = '']) => command)
}

export interface Line {
  /** Undefined: it only sets variables to what it says. */
  command: string | undefined
  /** What the lines that follow need: the variable that takes the output of the command, or the line itself. */
  sets: string | undefined
}

/** One command a line, or what sets variables for those that follow. */
export function linesOf({ text }: Block): Line[] {
  const lines = text.split('\n').filter((line) => line !== '')
  return lines.map((line) => {
    const [, variable, command] = /^([A-Z_]+)=\$\((.*)\)$/.exec(line) ?? []
    if (variable !== undefined) return { command, sets: variable }
    const assigns = /^(?:[A-Z_]+=(?:'[^']*'|\S+)\s*)+$/.test(line)
    return assigns
      ? { command: undefined, sets: line }
      : { command: line, sets: undefined }
  })
}

/** A JSON text as it always looks: without what is of one moment alone, such as ids, times and prices. */
export function formOf(json: string): unknown {
  return JSON.parse(json, (name, value: unknown) => {
    if (typeof value === 'number' && name !== 'status') return '<number>'
    if (name === 'toAmount') return { ...(value as object), value: '<price>' }
    if (typeof value !== 'string') return value
    if (name === 'payInAddressTag') return value.replace(/^\d{6}$/, '<tag>')
    return value
      .replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>')
      .replace(/\b[0-9a-f]{64}\b/g, '<quote id>')
      .replace(/^\d{4}-\d\d-\d\dT[\d:.]{12}Z$/, '<time>')
  })
}
