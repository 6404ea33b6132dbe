const tokenKey = 'quotegate-admin-token'

export function storedToken() {
  return sessionStorage.getItem(tokenKey) ?? ''
}

export function keepToken(token) {
  if (token === '') sessionStorage.removeItem(tokenKey)
  else sessionStorage.setItem(tokenKey, token)
}

export function authorization() {
  const token = storedToken()
  return token === '' ? {} : { Authorization: `Bearer ${token}` }
}

/** Runs an action of the console. If the gateway refuses, throws an error with the gateway's own words. */
export async function act(name, body = {}) {
  const answer = await fetch(`actions/${name}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Quotegate-Console': '1', ...authorization() },
    body: JSON.stringify(body),
  })
  const said = await answer.json().catch(() => ({}))
  if (!answer.ok) throw new Error(said.error ?? `The gateway answered ${answer.status}.`)
  return said
}
