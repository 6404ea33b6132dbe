/** The slots of one ring as the gateway keeps them, and what has come since. */
export function createSlots(first) {
  const { slotMs, slots } = first
  let last = first.last
  const values = Object.fromEntries(Object.entries(first.values).map(([name, list]) => [name, [...list]]))

  /** Takes the newest slots; those that are known already are replaced. */
  function take(next) {
    if (next.last < 0) return
    const steps = last < 0 ? 0 : next.last - last
    for (const [name, list] of Object.entries(next.values)) {
      const kept = values[name]
      if (last < 0) kept.push(...list)
      else {
        // A slot that no frame told of is not known.
        for (let step = 0; step < steps; step += 1) kept.push(null)
        for (const [index, value] of list.entries()) {
          const place = kept.length - list.length + index
          if (place >= 0) kept[place] = value
        }
      }
      kept.splice(0, Math.max(0, kept.length - slots))
    }
    last = next.last
  }

  return {
    take,
    slotMs,
    of: (name) => values[name],
    get length() {
      return values.requests.length
    },
    sum: (name) => values[name].reduce((total, value) => total + (value ?? 0), 0),
    peak: (name) => values[name].reduce((most, value) => Math.max(most, value ?? 0), 0),
  }
}
