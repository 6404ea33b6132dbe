import { authorization } from './api.js'

const silentMostMs = 5_000
const firstPauseMs = 400
const longestPauseMs = 4_000

/**
 * The gateway's events for the lifetime of the page: after a break it connects again. Not an EventSource, because that cannot
 * send a token.
 */
export function openStream({ onEvent, onState }) {
  let abort = new AbortController()
  let wanted = true
  let wake = () => {}

  async function run() {
    let pauseMs = firstPauseMs
    for (;;) {
      if (!wanted) await new Promise((resolve) => (wake = resolve))
      abort = new AbortController()
      try {
        await readEvents(abort, (name, data) => {
          show(name, data)
          pauseMs = firstPauseMs
        })
      } catch (error) {
        if (error instanceof TokenRefused) {
          // Set before the call, because `onState` may restart the stream with another token.
          wanted = false
          onState('refused')
        }
      }
      if (!wanted) continue
      onState('waiting')
      await new Promise((resolve) => {
        wake = resolve
        setTimeout(resolve, pauseMs)
      })
      pauseMs = Math.min(pauseMs * 1.6, longestPauseMs)
    }
  }

  /** A defect of the page must be seen, and must not make it connect again without a pause. */
  function show(name, data) {
    try {
      onEvent(name, data)
    } catch (error) {
      reportError(error)
      throw error
    }
  }

  async function readEvents(controller, onOne) {
    let watchdog = setTimeout(() => controller.abort(), silentMostMs)
    try {
      const answer = await fetch('stream', {
        headers: authorization(),
        cache: 'no-store',
        signal: controller.signal,
      })
      if (answer.status === 401) throw new TokenRefused()
      if (!answer.ok || answer.body === null) throw new Error(`the stream answered ${answer.status}`)
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
      let pending = ''
      for (;;) {
        const { value, done } = await reader.read()
        if (done) return
        clearTimeout(watchdog)
        watchdog = setTimeout(() => controller.abort(), silentMostMs)
        const events = (pending + value).split('\n\n')
        pending = events.pop() ?? ''
        for (const event of events) deliver(event, onOne)
      }
    } finally {
      clearTimeout(watchdog)
    }
  }

  void run()
  return {
    /** Connects again at once, with the current token. */
    restart() {
      wanted = true
      abort.abort()
      wake()
    },
    stop() {
      wanted = false
      abort.abort()
      onState('waiting')
    },
  }
}

class TokenRefused extends Error {}

function deliver(event, onOne) {
  let name = 'message'
  let data = ''
  for (const line of event.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7)
    else if (line.startsWith('data: ')) data += line.slice(6)
  }
  onOne(name, JSON.parse(data))
}
