import { once } from 'node:events'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { environmentOf, services } from '../support/deploy/compose.ts'
import { repository } from '../support/deploy/dockerfile.ts'
import { buildImage, canConfine, type Image, runInImage } from '../support/deploy/image.ts'
import { killPrograms, type RunningProgram } from '../support/gateways/program.ts'

const freePorts = { PORT: '0', ADMIN_PORT: '0' }
const quotePath = '/v3/pairs/ETH_USDC/quotes?amount=0.1'

// Two installations from the registry, and the Node of the image.
const buildWithinMs = 600_000
let image: Image
beforeAll(async () => {
  image = await buildImage()
}, buildWithinMs)
afterAll(() => image?.remove())
afterEach(killPrograms)

const start = (flags: readonly string[], settings: Record<string, string>) =>
  runInImage(image, [...image.entrypoint, ...flags], { ...freePorts, ...settings })

async function urlIn(program: RunningProgram, member: string): Promise<string> {
  const [, url = ''] = await program.says(new RegExp(`"${member}":"([^"]+)"`))
  // It listens at every address; this one can be asked.
  return url.replace('0.0.0.0', '127.0.0.1')
}

async function healthOf(settings: Record<string, string>) {
  return (await runInImage(image, image.healthcheck, settings).exit).code
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => !statSync(join(folder, name)).isDirectory(),
  )
}

/** As compose.yaml starts them, with names replaced by what they stand for here. */
async function startComposed() {
  const sandbox = start(services.sandbox?.command ?? [], environmentOf('sandbox'))
  const sandboxUrl = await urlIn(sandbox, 'url')
  const settings = Object.fromEntries(
    Object.entries(environmentOf('quotegate')).map(([name, value]) => [
      name,
      value.replace('http://sandbox:8080', sandboxUrl).replace('//valkey:6379', '//127.0.0.1:1'),
    ]),
  )
  const gateway = start(services.quotegate?.command ?? [], settings)
  const url = await urlIn(gateway, 'trafficUrl')
  const operationsUrl = await urlIn(gateway, 'operationsUrl')
  return { sandbox, sandboxUrl, gateway, url, operationsUrl }
}

describe('the image', () => {
  it('has the program, its packages and its licence, and no file of development', () => {
    const { devDependencies, dependencies } = JSON.parse(
      readFileSync(`${repository}package.json`, 'utf8'),
    ) as Record<'devDependencies' | 'dependencies', Record<string, string>>
    expect(readdirSync(image.workingFolder).sort()).toEqual([
      'LICENSE',
      'dist',
      'docs',
      'node_modules',
      'package.json',
    ])
    expect(readdirSync(join(image.workingFolder, 'docs'))).toEqual(['openapi.json'])
    const packages = new Set(readdirSync(join(image.workingFolder, 'node_modules')))
    expect(Object.keys(dependencies).filter((name) => !packages.has(name))).toEqual([])
    expect(Object.keys(devDependencies).filter((name) => packages.has(name))).toEqual([])
    const built = filesBelow(join(image.workingFolder, 'dist'))
    expect(built.filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))).toEqual([])
    expect(built).toContain('operations/console/index.html')
  })

  it('runs on the Node that the Dockerfile pins', async () => {
    expect(image.nodeVersion).toMatch(/^24\.\d+\.\d+$/)
    const { stdout } = await runInImage(image, ['node', '--version']).exit
    expect(stdout).toBe(`v${image.nodeVersion}\n`)
  })

  it('does not start without an upstream, since it is for production', async () => {
    const { code, stderr } = await start([], {}).exit
    expect(code).toBe(1)
    expect(stderr).toContain('SWAP_BASE_URL is not set')
  })

  it('shows the stack of a defect by the lines of the sources', async () => {
    const defect = "(await import('./dist/process/listen-error.js')).listenError()"
    const node = image.entrypoint.slice(0, -1)
    const { stderr } = await runInImage(image, [...node, '--input-type=module', '--eval', defect]).exit
    expect(stderr).toContain('/src/process/listen-error.ts:')
  })
})

describe('what compose.yaml starts', () => {
  it('serves a quote and a checkout from the sandbox', async () => {
    const { url } = await startComposed()
    const quote = await fetch(`${url}${quotePath}`, { headers: { 'App-Name': 'demo' } })
    expect([quote.status, quote.headers.get('sandbox')]).toEqual([200, 'quotegate'])
    const checkout = await fetch(`${url}/checkouts`, {
      method: 'POST',
      headers: { Authorization: 'Bearer any-key', 'Content-Type': 'application/json' },
      body: '{"amount":"10.00","currency":"USD"}',
    })
    expect(checkout.status).toBe(201)
  })

  if (!canConfine) {
    process.stderr.write('\nSKIPPED: the image on a read-only root, which takes root and unshare(1)\n\n')
  }
  it.skipIf(!canConfine)('does all this on a read-only root, and not as root', async () => {
    const before = filesBelow(image.workingFolder)
    const { gateway, url } = await startComposed()
    const quote = await fetch(`${url}${quotePath}`, { headers: { 'App-Name': 'demo' } })
    expect(quote.status).toBe(200)
    const status = readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8')
    expect(status).toMatch(/^Uid:\s+1000\s+1000\s+1000\s+1000$/m)
    const mounts = readFileSync(`/proc/${gateway.child.pid}/mounts`, 'utf8')
    expect(mounts).toMatch(/^\S+ \/ \S+ ro[,\s]/m)
    expect(filesBelow(image.workingFolder)).toEqual(before)
  })

  it('is healthy until it ends, also while it drains, and ends with code 0', async () => {
    const { gateway, url, operationsUrl } = await startComposed()
    const at = { ADMIN_PORT: new URL(operationsUrl).port }
    expect(await healthOf(at)).toBe(0)

    gateway.child.kill('SIGTERM')
    await expect.poll(async () => (await fetch(`${operationsUrl}/readyz`)).status).toBe(503)
    // DRAIN_DELAY_MS is five seconds in production: a balancer that has not noticed yet is still served.
    const late = await fetch(`${url}${quotePath}`, { headers: { 'App-Name': 'demo' } })
    expect([late.status, late.headers.get('connection')]).toEqual([200, 'close'])
    expect(await healthOf(at)).toBe(0)

    expect((await gateway.exit).code).toBe(0)
  })
})

describe('HEALTHCHECK', () => {
  it('asks where ADMIN_HOST says', async () => {
    // Held at the address asked without it, or a gateway of another test could be the one that answers there.
    const other = createServer((_, response) => response.writeHead(503).end())
    await once(other.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void other.close())
    const ADMIN_PORT = String((other.address() as AddressInfo).port)
    const gateway = start([], {
      SWAP_BASE_URL: 'https://swap.example.com',
      ADMIN_HOST: '127.0.0.2',
      ADMIN_PORT,
    })
    await urlIn(gateway, 'operationsUrl')
    expect(await healthOf({ ADMIN_HOST: '127.0.0.2', ADMIN_PORT })).toBe(0)
    expect(await healthOf({ ADMIN_PORT })).toBe(1)
  })

  it('fails where nothing listens', async () => {
    expect(await healthOf({ ADMIN_PORT: '1' })).toBe(1)
  })

  it('asks at IPv6 addresses too', async () => {
    const gateway = start([], { SWAP_BASE_URL: 'https://swap.example.com', HOST: '::' })
    const { port } = new URL(await urlIn(gateway, 'operationsUrl'))
    expect(await healthOf({ HOST: '::', ADMIN_PORT: port })).toBe(0)
  })

  it('of the sandbox in compose.yaml says whether it answers', async () => {
    const sandbox = start(services.sandbox?.command ?? [], environmentOf('sandbox'))
    const { port } = new URL(await urlIn(sandbox, 'url'))
    const [, ...command] = services.sandbox?.healthcheck?.test ?? []
    const ask = (at: string) =>
      runInImage(
        image,
        command.map((word) => word.replace(':8080', `:${at}`)),
      ).exit
    expect((await ask(port)).code).toBe(0)
    expect((await ask('1')).code).toBe(1)
  })
})
