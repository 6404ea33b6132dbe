/** Bare node:http with a constant answer: the ceiling of whatever is built on it. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const [port, , answerFile] = process.argv.slice(2)
const body = readFileSync(answerFile, 'latin1')
const head = ['Content-Type', 'application/json', 'Content-Length', String(body.length)]

const server = createServer((_request, response) => {
  response.writeHead(200, head)
  response.end(body, 'latin1')
})
server.keepAliveTimeout = 65_000
server.listen(Number(port), '127.0.0.1', 4_096)
