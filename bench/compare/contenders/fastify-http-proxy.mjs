/** @fastify/http-proxy as its README sets it up, with as many connections as the gateway may have. */
import proxy from '@fastify/http-proxy'
import fastify from 'fastify'

const [port, upstreamPort] = process.argv.slice(2)
const app = fastify({ logger: false })
await app.register(proxy, {
  upstream: `http://127.0.0.1:${upstreamPort}`,
  undici: { connections: 128, pipelining: 1 },
})
await app.listen({ port: Number(port), host: '127.0.0.1' })
