/** Of the process that runs the tests: where programs are found, what npm needs, and how a script asks for another run. */
export function environment(): NodeJS.ProcessEnv {
  // biome-ignore lint/style/noProcessEnv: the tests have no settings; what they start needs PATH at least.
  return process.env
}
