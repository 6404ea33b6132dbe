/** STATE_DIRECTORY cannot be used, described in one line. */
export class StateError extends Error {
  override readonly name = 'StateError'
}
