import type { Config } from '../config/config.ts'
import { type LoadedConfig, loadConfig } from '../config/load.ts'
import { SettingsError } from '../config/problems.ts'
import type { UpstreamName } from '../http/upstreams.ts'
import type { Logger } from '../process/logger.ts'
import type { TlsFiles } from '../upstream/connection.ts'

interface SecretsParts {
  loaded: LoadedConfig
  log: Logger
  /** Headers that the swap API gets if the caller sends none. */
  supplied: Map<string, string>
  upstreams: Readonly<
    Record<UpstreamName, { connections: { renew(tls: TlsFiles): void } } | undefined>
  >
}

/** Files that are read together, the secret in them, and what uses it. */
interface SecretFiles<Secret> {
  readonly files: readonly string[]
  of(config: Config): Secret | undefined
  use(secret: Secret): void
}

const baseUrls = ['SWAP_BASE_URL', 'PAYMENTS_BASE_URL', 'WEBHOOKS_BASE_URL']
/** A changed value would lead to another store, or through another proxy. */
const neverAgain = ['VALKEY_URL', 'UPSTREAM_PROXY']

/** The secrets in files that are read again while the gateway runs. */
export class Secrets {
  adminToken: string | undefined
  /** How often a file could not be used, and the earlier secret stayed in use. */
  failures = 0
  readonly #ofFiles: LoadedConfig['ofFiles']
  readonly #log: Logger
  readonly #rows: readonly { readonly files: readonly string[]; read(): boolean }[]

  constructor({ loaded, log, supplied, upstreams }: SecretsParts) {
    const { config, ofFiles } = loaded
    this.adminToken = config.admin.token
    this.#ofFiles = ofFiles
    this.#log = log
    const tlsRow = (of: 'swap' | 'payments', names: readonly UpstreamName[]) =>
      this.#rowOf<TlsFiles>(config, {
        files: ['CA', 'CERT', 'KEY'].map((file) => `${of.toUpperCase()}_${file}_FILE`),
        of: (read) => read.upstreams[of].tls,
        use: (tls) => {
          for (const name of names) upstreams[name]?.connections.renew(tls)
        },
      })
    this.#rows = [
      this.#rowOf(config, {
        files: ['SWAP_AUTHORIZATION_FILE'],
        of: ({ swap }) => swap.authorization,
        use: (authorization) => void supplied.set('authorization', authorization),
      }),
      this.#rowOf(config, {
        files: ['ADMIN_TOKEN_FILE'],
        of: ({ admin }) => admin.token,
        use: (token) => {
          this.adminToken = token
        },
      }),
      tlsRow('swap', ['swap']),
      tlsRow('payments', ['payments', 'webhooks']),
    ]
  }

  /** Remembers the secret in use. `read` returns whether it has changed. */
  #rowOf<Secret>(config: Config, { files, of, use }: SecretFiles<Secret>) {
    const set = files.filter((name) => name in this.#ofFiles)
    let used = JSON.stringify(of(config))
    const read = () => {
      const names = [...set, ...baseUrls]
      const given = names.map((name) => [name, this.#ofFiles[name]])
      const secret = of(loadConfig(Object.fromEntries(given), { by: 'library' }).config)
      const now = JSON.stringify(secret)
      if (secret === undefined || now === used) return false
      use(secret)
      used = now
      return true
    }
    return { files: set, read }
  }

  /** A file that cannot be used leaves the earlier secret in use. */
  readAgain() {
    const changed: string[] = []
    const unchanged: string[] = []
    const failed: string[] = []
    for (const { files, read } of this.#rows) {
      if (files.length === 0) continue
      try {
        const list = read() ? changed : unchanged
        list.push(...files)
      } catch (error) {
        if (!(error instanceof SettingsError)) throw error
        for (const { name, expected } of error.problems) {
          failed.push(name)
          this.failures += 1
          const text = `${name} could not be read again, and what was read before stays in use: it has to be ${expected}`
          this.#log.error({ setting: name }, text)
        }
      }
    }
    this.#log.info(
      { changed, unchanged, failed },
      `the files of secrets were read again; ${neverAgain.join(' and ')} are read at a start alone`,
    )
    return { changed, unchanged, failed, notReadAgain: neverAgain }
  }
}
