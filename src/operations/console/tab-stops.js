/** A table is one stop of the Tab key: the row that had the focus last, or the first. */
export function holdTabStops() {
  for (const table of document.querySelectorAll('table')) {
    const stops = [...table.querySelectorAll('.stop')]
    const kept =
      stops.find((stop) => stop === document.activeElement) ??
      stops.find((stop) => stop.getAttribute('tabindex') === '0') ??
      stops[0]
    for (const stop of stops) {
      const index = stop === kept ? '0' : '-1'
      if (stop.getAttribute('tabindex') !== index) stop.setAttribute('tabindex', index)
    }
  }
}

const moves = {
  ArrowDown: (index) => index + 1,
  ArrowUp: (index) => index - 1,
  Home: () => 0,
  End: (_index, last) => last,
}

/** The arrow keys move between rows. */
export function moveBetweenRows(event) {
  const stop = event.target.closest('.stop')
  const move = moves[event.key]
  if (stop === null || move === undefined) return
  event.preventDefault()
  const stops = [...event.currentTarget.querySelectorAll('.stop')]
  const last = stops.length - 1
  const index = move(stops.indexOf(stop), last)
  stops[Math.min(last, Math.max(0, index))].focus()
  holdTabStops()
}
