const svgNamespace = 'http://www.w3.org/2000/svg'
const width = 120
const height = 32

/** Values as a line, with the times of outages marked; null is a slot without a value. */
export function createSparkline(label) {
  const make = (name, kind) => {
    const made = document.createElementNS(svgNamespace, name)
    made.classList.add(kind)
    return made
  }
  const svg = make('svg', 'spark')
  const marks = make('path', 'outage-mark')
  const area = make('path', 'area')
  const line = make('path', 'line')
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`)
  svg.setAttribute('preserveAspectRatio', 'none')
  svg.setAttribute('role', 'img')
  svg.append(marks, area, line)

  return {
    node: svg,
    /** `points`: how many fit. `outages`: where each begins and ends, counted in points from the first. */
    draw(values, { points, highest, said, outages }) {
      const known = values.filter((value) => value !== null)
      const top = Math.max(highest ?? 0, ...known, 1e-9)
      const placeOf = (index) => ((index + points - values.length) / (points - 1)) * width
      svg.setAttribute('aria-label', `${label}: ${said}`)
      const at = values.flatMap((value, index) => {
        if (value === null) return []
        return [[placeOf(index).toFixed(1), (height - 1 - (value / top) * (height - 4)).toFixed(1)]]
      })
      const path = at.map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${x} ${y}`).join('')
      line.setAttribute('d', path)
      const [first] = at
      const last = at.at(-1)
      area.setAttribute('d', first && last ? `${path}L${last[0]} ${height}L${first[0]} ${height}Z` : '')
      marks.setAttribute('d', outages.map(([from, to]) => bar(placeOf(from), placeOf(to))).join(''))
    },
  }
}

/** At least as wide as can be seen. */
function bar(from, to) {
  const left = Math.max(0, from)
  const right = Math.min(width, Math.max(to, from + 1))
  return right <= left ? '' : `M${left.toFixed(1)} 0H${right.toFixed(1)}V${height}H${left.toFixed(1)}Z`
}
