/** A call of `startSandbox()` or `faults()` with something that is not expected there. */
export class SandboxError extends TypeError {
  override readonly name = 'SandboxError'
}
