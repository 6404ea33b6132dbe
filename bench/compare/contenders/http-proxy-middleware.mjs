/** http-proxy-middleware on Express as its README sets it up, but with connections that are kept. */
import { Agent } from 'node:http'
import express from 'express'
import { createProxyMiddleware } from 'http-proxy-middleware'

const [port, upstreamPort] = process.argv.slice(2)
const app = express()
const agent = new Agent({ keepAlive: true, maxSockets: 128 })
app.use(createProxyMiddleware({ target: `http://127.0.0.1:${upstreamPort}`, changeOrigin: true, agent }))
app.listen(Number(port), '127.0.0.1')
