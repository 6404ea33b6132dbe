/** Who sends an order. */
export interface Orderer {
  readonly application: string | undefined
  /** Undefined: the client's address is not known, so no quote is its own. */
  readonly partition: string | undefined
  /** Whether the partition is one address, and not a country or all clients, whose quotes are not one client's own. */
  readonly isAddress: boolean
}
