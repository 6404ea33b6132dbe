import { readFileSync, writeFileSync } from 'node:fs'
import { type ListeningProgram, startListening } from './program.ts'

export interface GatewayProcess extends ListeningProgram {
  /** Resident memory now. */
  residentBytes(): number
  /** The most resident memory since `forgetPeak()`. */
  peakBytes(): number
  forgetPeak(): void
}

/** A gateway in a process of its own, whose memory can be watched. */
export async function startGatewayProcess(
  settings: Record<string, string>,
): Promise<GatewayProcess> {
  const program = await startListening(settings)
  const { pid } = program.child
  const field = (name: string) => {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024
  }
  return {
    ...program,
    residentBytes: () => field('VmRSS'),
    peakBytes: () => field('VmHWM'),
    // 5: resets the peak to what is resident now (proc_pid_clear_refs(5)).
    forgetPeak: () => writeFileSync(`/proc/${pid}/clear_refs`, '5'),
  }
}
