import { Worker } from 'node:worker_threads'
import { onTestFinished } from 'vitest'

const program = `
  const { createServer } = require('node:net')
  const { monitorEventLoopDelay } = require('node:perf_hooks')
  const { parentPort, workerData } = require('node:worker_threads')
  const { idleMs, announce } = workerData
  const seen = {}
  const delays = monitorEventLoopDelay()
  delays.enable()
  const server = createServer((socket) => {
    let idle
    let text = ''
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      clearTimeout(idle)
      text += chunk.toString('latin1')
      const request = /^POST (\\S+) [^]*?\\r\\n\\r\\n\\{\\}/.exec(text)
      if (!request) return
      text = text.slice(request[0].length)
      seen[request[1]] = (seen[request[1]] ?? 0) + 1
      socket.write('HTTP/1.1 200 OK\\r\\n' + announce + 'Content-Length: 2\\r\\n\\r\\nok')
      const [least, most] = idleMs
      idle = setTimeout(() => socket.destroy(), least + Math.random() * (most - least))
    })
  })
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
  parentPort.on('message', () => {
    parentPort.postMessage({ seen, stoodStillMs: delays.max / 1e6 })
    delays.reset()
  })
`

interface Report {
  seen: Record<string, number>
  stoodStillMs: number
}

/** An upstream with an event loop of its own that closes connections which were idle for so long. */
export async function racingUpstream(options: {
  idleMs: [least: number, most: number]
  announce: string
}) {
  const worker = new Worker(program, { eval: true, workerData: options })
  onTestFinished(async () => {
    await worker.terminate()
  })
  const told = () => new Promise<unknown>((resolve) => worker.once('message', resolve))
  const port = await told()
  return {
    url: `http://127.0.0.1:${port}`,
    /** How often each target was seen, and for how long its event loop stood still at most since the last report. */
    async report() {
      const answer = told()
      worker.postMessage('seen?')
      return (await answer) as Report
    },
  }
}
