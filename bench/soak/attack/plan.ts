/** How many connections each attack holds. */
export interface Plan {
  tinyHeads: number
  pipelined: number
  slowOrders: number
  tricklingBodies: number
  largeTricklingBodies: number
  resetsPerSecond: number
}

/** The attacks that ended or held a gateway once; there were 10,000 slow orders. */
const most: Plan = {
  tinyHeads: 2_000,
  pipelined: 200,
  slowOrders: 10_000,
  tricklingBodies: 128,
  largeTricklingBodies: 1_200,
  resetsPerSecond: 100,
}

/** Connections of the gateway that the attack leaves to honest clients. */
const leftFree = 500

/** The attack that fits: into the connections that the gateway takes, and into what this process may open. */
export function planFor(gatewayConnections: number, ownDescriptors: number): Plan {
  const mayHold = Math.min(gatewayConnections - leftFree, ownDescriptors - leftFree)
  const { slowOrders, resetsPerSecond, ...others } = most
  const wanted = Object.values(others).reduce((sum, count) => sum + count, 0)
  // At least a third of all connections are slow orders: they are what holds most for longest.
  const share = Math.min(1, (mayHold * 2) / 3 / wanted)
  const plan = { ...most }
  for (const name of Object.keys(others) as (keyof typeof others)[])
    plan[name] = Math.floor(most[name] * share)
  const taken = Object.keys(others).reduce(
    (sum, name) => sum + plan[name as keyof typeof others],
    0,
  )
  return {
    ...plan,
    slowOrders: Math.max(0, Math.min(slowOrders, mayHold - taken)),
    resetsPerSecond,
  }
}
