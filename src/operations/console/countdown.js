import { element, setText } from './dom.js'

/** The time that a quote has left, as a bar and in seconds; used in the table and beside a trial. */
export function createCountdown() {
  const fill = element('div', { class: 'fill' })
  const left = element('span', { class: 'left' })
  const node = element(
    'div',
    { class: 'life' },
    element('div', { class: 'track', 'aria-hidden': 'true' }, fill),
    left,
  )
  let endsAt = 0
  let lifeMs = 1

  return {
    node,
    /** Both times are by the gateway's clock, because this computer's may be wrong. */
    set(next) {
      endsAt = performance.now() + next.leftMs
      lifeMs = Math.max(next.lifeMs, next.leftMs, 1)
      this.update()
    },
    get leftMs() {
      return Math.max(0, endsAt - performance.now())
    },
    update() {
      const { leftMs } = this
      const share = leftMs / lifeMs
      fill.style.transform = `scaleX(${share.toFixed(4)})`
      fill.className = `fill${share < 0.15 ? ' last' : share < 0.4 ? ' low' : ''}`
      setText(left, `${(leftMs / 1000).toFixed(1)} s`)
    },
  }
}
