/**
 * Bare node:http with a constant answer: the limit of what is built on it. It finds the headers that a gateway cannot
 * do without, because a server that ignores its requests is not a limit for one that must read them.
 */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const [port, , answerFile] = process.argv.slice(2)
const body = readFileSync(answerFile, 'latin1')
const head = ['Content-Type', 'application/json', 'Content-Length', String(body.length)]

function hasAllHeaders({ rawHeaders }) {
  let id, forwarded, application
  for (let at = 0; at < rawHeaders.length; at += 2) {
    switch (rawHeaders[at].toLowerCase()) {
      case 'x-request-id':
        id = rawHeaders[at + 1]
        break
      case 'forwarded':
        forwarded = rawHeaders[at + 1]
        break
      case 'app-name':
        application = rawHeaders[at + 1]
        break
    }
  }
  return id !== undefined && forwarded !== undefined && application !== undefined
}

const server = createServer((request, response) => {
  if (!hasAllHeaders(request)) {
    response.writeHead(400).end()
    return
  }
  response.writeHead(200, head)
  response.end(body, 'latin1')
})
server.keepAliveTimeout = 65_000
server.listen(Number(port), '127.0.0.1', 4_096)
