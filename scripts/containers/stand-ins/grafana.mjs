// Stands where Grafana would, whose image cannot be made of Debian's packages. It checks what compose.yaml gives Grafana:
// mounts, places to write, user and port. It draws nothing.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'

// biome-ignore lint/style/noProcessEnv: the program stands for one that is set up by its environment.
JSON.parse(readFileSync(process.env.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH, 'utf8'))
for (const folder of ['datasources', 'dashboards']) {
  if (readdirSync(`/etc/grafana/provisioning/${folder}`).length === 0) throw new Error(`${folder} is empty`)
}
for (const folder of ['/var/lib/grafana', '/tmp']) writeFileSync(`${folder}/probe`, '')
if (process.getuid?.() !== 472) throw new Error(`the user is ${process.getuid?.()}, not 472`)
createServer((_, response) => response.end('{"database":"ok"}')).listen(3000)
process.on('SIGTERM', () => process.exit(0))
