export function reference(group: string, name: string): object {
  return { $ref: `#/components/${group}/${name}` }
}

export const headerReferences = (...names: string[]) =>
  Object.fromEntries(names.map((name) => [name, reference('headers', name)]))

/** As `AppName` for `App-Name` and for `app-name`. */
export function pascalCase(name: string): string {
  return name.replace(/(?:^|-)([a-z])/gi, (_all, letter: string) => letter.toUpperCase())
}
