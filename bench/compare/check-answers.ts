import {
  clients,
  headerLines,
  orderBody,
  orderTarget,
  passTarget,
  quoteProbe,
  quoteTarget,
  quoteTargetOf,
} from '../shared/backend-requests.ts'
import {
  askOnce,
  type RawAnswer,
  RawConnection,
  type RawRequest,
  requestText,
} from '../shared/raw-client.ts'
import type { Placed, Stage } from '../shared/stage.ts'

/** Answers are checked before they are timed, because an error page is a fast answer. Each client asks twice. */
export async function checkHit(
  { contender, port }: Placed,
  { quoteBody }: Stage,
): Promise<void> {
  const connection = await RawConnection.open(port)
  for (let number = 0; number < 2 * clients; number += 1) {
    const request = { target: quoteTarget, headers: headerLines(number) }
    const answer = await connection.ask(requestText(request))
    expectStatus(contender.name, answer, 200)
    if (answer.body.toString('latin1') !== quoteBody)
      wrong(contender.name, 'another quote than the upstream', answer)
    if (number < clients) continue
    for (const [name, expected] of Object.entries(contender.hitHeaders)) {
      if (!expected.test(answer.headers.get(name) ?? ''))
        wrong(contender.name, `no good ${name}`, answer)
    }
  }
  connection.close()
}

/** Two quotes that the server has to fetch, each for the amount that was asked for. */
export async function checkMiss({ contender, port }: Placed): Promise<void> {
  for (const amount of ['17', '18']) {
    const request = { target: quoteTargetOf(amount), headers: headerLines() }
    const answer = await ask(contender.name, port, request)
    expectStatus(contender.name, answer, 200)
    if (!answer.body.includes(`"value":"${amount}"`))
      wrong(contender.name, 'a quote for another amount', answer)
  }
}

/** A float order for a quote that this gateway has served reaches the upstream. */
export async function checkOrder({ contender, port }: Placed): Promise<void> {
  await ask(contender.name, port, quoteProbe)
  const headers = [...headerLines(), 'Content-Type: application/json']
  const answer = await ask(contender.name, port, {
    method: 'POST',
    target: orderTarget,
    headers,
    body: orderBody,
  })
  expectStatus(contender.name, answer, 201)
  if (!answer.body.includes('"id":"or_1"'))
    wrong(contender.name, "not the upstream's order", answer)
}

/** The same for all contenders: target, headers and body reach the upstream unchanged. */
export async function checkPassThrough(name: string, port: number): Promise<void> {
  const headers = [
    ...headerLines(),
    'Content-Type: application/json',
    'X-Signature: s1gned',
    'Authorization: Bearer key',
  ]
  const got = await ask(name, port, { target: passTarget, headers })
  expectStatus(name, got, 200)
  if (!got.body.includes('"id":"co_1"')) wrong(name, 'not the checkout', got)
  for (const bytes of [1_024, 65_536]) {
    const body = jsonOf(bytes)
    const echoed = await ask(name, port, {
      method: 'POST',
      target: passTarget,
      headers: [...headers, 'X-Echo: 1'],
      body,
    })
    expectStatus(name, echoed, 200)
    const text = echoed.body.toString('latin1')
    const [head = ''] = text.split('\r\n\r\n', 1)
    if (text.slice(head.length + 4) !== body)
      wrong(name, `a body of ${bytes} bytes was changed on its way`, echoed)
    if (!head.startsWith(`POST ${passTarget} HTTP/1.1`))
      wrong(name, 'the target was changed', echoed)
    for (const line of [
      'x-signature: s1gned',
      'authorization: bearer key',
      'content-type: application/json',
    ]) {
      if (!head.toLowerCase().includes(`\r\n${line}`))
        wrong(name, `the upstream misses ${line}`, echoed)
    }
  }
}

async function ask(name: string, port: number, request: RawRequest): Promise<RawAnswer> {
  try {
    return await askOnce(port, request)
  } catch (cause) {
    const asked = `${request.method ?? 'GET'} ${request.target}, body of ${request.body?.length ?? 0} bytes`
    throw new Error(`${name} does not answer (${asked}): ${cause}`)
  }
}

/** A JSON body of this length. */
export function jsonOf(bytes: number): string {
  const around = '{"note":""}'
  return `{"note":"${'x'.repeat(bytes - around.length)}"}`
}

function expectStatus(name: string, answer: RawAnswer, status: number): void {
  if (answer.status !== status) wrong(name, `status ${answer.status}`, answer)
}

function wrong(name: string, what: string, { status, headers, body }: RawAnswer): never {
  const shown = JSON.stringify(Object.fromEntries(headers))
  throw new Error(
    `${name} does not answer as it should: ${what}\n${status} ${shown}\n${body.subarray(0, 400).toString('latin1')}`,
  )
}
