import { startValkey, type ValkeyServer } from '../../test/support/stores/valkey.ts'
import type { Figures } from './stage.ts'

export interface Store {
  url: string
  server: ValkeyServer
  /** The figures of a load, and what the store's processor spent meanwhile, if the load used it. */
  withCpu(load: () => Promise<Figures>, isUsed?: boolean): Promise<Figures>
  end(): Promise<void>
}

/** A redis-server, which runs beside load and upstream. */
export async function startStore(): Promise<Store> {
  const server = await startValkey()
  process.once('exit', () => void server.kill())
  const cpuMicros = async () =>
    Array.from(
      String(await server.ask('INFO', 'cpu')).matchAll(/used_cpu_(?:user|sys):(.*)/g),
      ([, seconds]) => Number(seconds) * 1e6,
    ).reduce((sum, part) => sum + part, 0)
  return {
    url: server.url,
    server,
    async withCpu(load, isUsed = true) {
      const before = await cpuMicros()
      const figures = await load()
      const spent = (await cpuMicros()) - before
      return isUsed
        ? { ...figures, storeMicros: spent / (figures.requests ?? Number.NaN) }
        : figures
    },
    end: () => server.end(),
  }
}
