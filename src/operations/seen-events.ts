export type EventTone = 'good' | 'warn' | 'bad' | 'note'

/** Something that a person on call wants to know of later. It has no request details. */
export interface SeenEvent {
  /** Goes up by one with each event. */
  readonly id: number
  readonly at: number
  readonly tone: EventTone
  readonly text: string
  /** The event whose place it takes, because it says the same of a later moment. */
  readonly replaces?: number | undefined
}

export interface Events {
  /** Returns its id. */
  add(tone: EventTone, text: string, replaces?: number): number
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
    add(tone, text, replaces) {
      lastId += 1
      const replaced = events.findIndex(({ id }) => id === replaces)
      if (replaced !== -1) events.splice(replaced, 1)
      events.push({ id: lastId, at: nowMs(), tone, text: text.slice(0, maxLength), replaces })
      if (events.length > maxEvents) events.shift()
      return lastId
    },
    after: (id) => events.filter((event) => event.id > id),
  }
}
