export type EventTone = 'good' | 'warn' | 'bad' | 'note'

/** Something that a person on call wants to know of later. It has no request details. */
export interface SeenEvent {
  /** Goes up by one with each event. */
  readonly id: number
  readonly at: number
  readonly tone: EventTone
  readonly text: string
}

export interface Events {
  add(tone: EventTone, text: string): void
  /** Those that came after this id, the oldest first. */
  after(id: number): readonly SeenEvent[]
}

const maxEvents = 200
const maxLength = 300

/** The last events; older ones are forgotten. */
export function createEvents(nowMs: () => number): Events {
  const events: SeenEvent[] = []
  let lastId = 0
  return {
    add(tone, text) {
      lastId += 1
      events.push({ id: lastId, at: nowMs(), tone, text: text.slice(0, maxLength) })
      if (events.length > maxEvents) events.shift()
    },
    after: (id) => events.filter((event) => event.id > id),
  }
}
