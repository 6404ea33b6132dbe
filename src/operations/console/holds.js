import { act, ask } from './connection.js'
import { clockTime } from './format.js'
import { html, Panel, page, say, sayError } from './page.js'

/** Banners above all else, whatever a user does. */
export function banners() {
  return page.latest.holds.map((hold) => {
    const { pair, application, reason, since, until } = hold
    const key = [pair, application, since].join(' ')
    return html`<p key=${key} class="hold flow" data-hold=${pair ?? 'all'}>
      <strong>HELD: ${whatOf(hold)}.</strong>
      <span class="grow">${reason} · since ${clockTime(since)}, until ${clockTime(until)}</span>
      ${page.isFull && html`<button type="button" onClick=${() => release(hold)}>Release</button>`}
    </p>`
  })
}

function whatOf({ pair, application, quotes }) {
  const what = quotes ? 'Quotes and orders' : 'Orders'
  const by = application === null ? '' : ` by ${application}`
  return `${what} of ${pair ?? 'all pairs'}${by}`
}

export function form() {
  if (!page.isFull) return undefined
  return html`<${Panel} id="hold" title="Hold orders" count="503 held, and nothing is sent">
    <form class="stack" data-role="body" onSubmit=${send}>
      <div class="fields stack">
        ${field('Pair', 'pair', { placeholder: 'all pairs' })}
        ${field('App-Name', 'application', { placeholder: 'all applications' })}
        ${field('Reason, for callers', 'reason', { required: true, maxlength: 500 })}
        ${field('Minutes', 'minutes', { type: 'number', min: 1, max: 1_440, defaultValue: 30, required: true })}
      </div>
      <div class="row flow">
        <label class="check"><input type="checkbox" name="quotes" />Quotes too</label>
        <span class="grow"></span>
        <button type="submit">Hold</button>
      </div>
    </form>
  <//>`
}

function field(label, name, more) {
  return html`<label>${label}<input name=${name} autocomplete="off" spellcheck=${false} ...${more} /></label>`
}

async function send(event) {
  event.preventDefault()
  const { target } = event
  const { quotes, minutes, reason, ...scope } = Object.fromEntries(new FormData(target))
  const terms = { reason, minutes: Number(minutes), quotes: quotes !== undefined }
  const reach = await run('hold', { ...named(scope), ...terms })
  if (reach === undefined) return
  target.reset()
  say(`Held ${reach}.`)
}

async function release({ pair, application }) {
  const reach = await run('release', named({ pair, application }))
  if (reach !== undefined) say(`Released ${reach}.`, 'good')
}

/** A missing name means all. */
function named(scope) {
  return Object.fromEntries(Object.entries(scope).filter(([, name]) => name))
}

/** Returns where the action counts; undefined: it was refused. */
async function run(action, body) {
  try {
    const { reach } = await act(action, body)
    ask()
    return reach
  } catch (error) {
    sayError(error)
  }
}
