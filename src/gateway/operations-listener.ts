import type { RequestListener } from 'node:http'
import type { Config } from '../config/config.ts'
import { answerStarting } from '../operations/starting.ts'
import { closeServer, listen, type OnLateError } from '../server/listen.ts'
import { createOperationsServer } from '../server/operations-server.ts'

/** The operations listener. It can listen before there is anything to operate, because reading the ledger may take long. */
export interface OperationsListener {
  /** What it answers from now on; before, that the gateway starts. */
  serve(listener: RequestListener): void
  /** Resolves to its URL, also if it listens already. */
  listen(): Promise<string>
  close(): Promise<void>
}

/** Enough for a scrape that is being answered. */
const closeWithinMs = 2_000

export function createOperationsListener(at: Config['admin'], onLateError: OnLateError): OperationsListener {
  let answer: RequestListener = answerStarting
  const server = createOperationsServer((request, response) => answer(request, response))
  let url: string | undefined
  return {
    serve(listener) {
      answer = listener
    },
    async listen() {
      url ??= await listen(server, at, { setting: 'ADMIN_PORT', onLateError })
      return url
    },
    async close() {
      url = undefined
      await closeServer(server, { timeoutMs: closeWithinMs })
    },
  }
}
