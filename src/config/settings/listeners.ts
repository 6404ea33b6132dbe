import { facts } from '../setting-facts.ts'
import { filePath, host, hostNames, port, token } from '../value-schemas.ts'

export const listenerSettings = {
  HOST: host.prefault('127.0.0.1').register(facts, {
    meaning: 'Address of the traffic listener. The container image sets 0.0.0.0.',
  }),
  PORT: port.prefault('8080').register(facts, {
    meaning: 'Port of the traffic listener; 0 takes any free port and prints it.',
  }),
  ADMIN_HOST: host.optional().register(facts, {
    defaultText: 'the value of HOST',
    meaning: 'Address of the operations listener (metrics, health, console).',
  }),
  ADMIN_PORT: port.prefault('8081').register(facts, {
    meaning: 'Port of the operations listener; 0 takes any free port and prints it.',
  }),
  ADMIN_TOKEN: token.optional().register(facts, {
    secret: 'whole',
    meaning:
      'Token for the console, sent as Authorization: Bearer; 16 to 512 visible ASCII characters. Without it ' +
      'anyone who reaches the operations listener has full access; in production the console is then ' +
      'read-only and shows no request details.',
  }),
  ADMIN_TOKEN_FILE: filePath.optional().register(facts, {
    secret: 'unless-path',
    meaning:
      'A file that holds ADMIN_TOKEN, in place of ADMIN_TOKEN. It is read at startup; its last newline is cut.',
  }),
  ADMIN_ALLOWED_HOSTS: hostNames.optional().register(facts, {
    meaning:
      'Host names under which the console and /status answer, besides localhost and any IP address; under any ' +
      'other name they refuse (DNS rebinding). /metrics, /openapi.json, /healthz and /readyz answer under any name.',
  }),
}
