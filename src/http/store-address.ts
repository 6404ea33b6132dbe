/** The address of the shared store, parsed from VALKEY_URL. */
export interface StoreAddress {
  readonly kind: 'single' | 'sentinel' | 'cluster'
  /** The server, the Sentinels, or some nodes of the Cluster, which name the other nodes. */
  readonly nodes: readonly StoreNode[]
  readonly tls: boolean
  readonly username: string | undefined
  readonly password: string | undefined
  readonly database: number
  /** The name under which the Sentinels know the server to use. */
  readonly masterName: string | undefined
  readonly sentinelPassword: string | undefined
}

export interface StoreNode {
  readonly host: string
  readonly port: number
}
