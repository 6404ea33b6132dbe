const svgNamespace = 'http://www.w3.org/2000/svg'
const width = 120
const height = 32

/** The last values as a line; null is a second without a value. */
export function createSparkline(label, points) {
  const svg = document.createElementNS(svgNamespace, 'svg')
  const area = document.createElementNS(svgNamespace, 'path')
  const line = document.createElementNS(svgNamespace, 'path')
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`)
  svg.setAttribute('preserveAspectRatio', 'none')
  svg.setAttribute('role', 'img')
  svg.classList.add('spark')
  area.classList.add('area')
  line.classList.add('line')
  svg.append(area, line)

  return {
    node: svg,
    draw(values, { highest, said }) {
      const known = values.filter((value) => value !== null)
      const top = Math.max(highest ?? 0, ...known, 1e-9)
      svg.setAttribute('aria-label', `${label}: ${said}`)
      const at = values.flatMap((value, index) => {
        if (value === null) return []
        const x = ((index + points - values.length) / (points - 1)) * width
        const y = height - 1 - (value / top) * (height - 4)
        return [[x.toFixed(1), y.toFixed(1)]]
      })
      const path = at.map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${x} ${y}`).join('')
      line.setAttribute('d', path)
      const [first] = at
      const last = at.at(-1)
      area.setAttribute('d', first && last ? `${path}L${last[0]} ${height}L${first[0]} ${height}Z` : '')
    },
  }
}
