/** A provider says the same of nearly every quote: one list for all of them instead of one each. */
export function createOneList(): (list: readonly string[]) => readonly string[] {
  let last: readonly string[] = []
  return (list) => {
    const same = list.length === last.length && list.every((part, at) => part === last[at])
    if (!same) last = list
    return last
  }
}
