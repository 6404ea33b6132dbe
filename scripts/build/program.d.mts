import type { Plugin } from 'esbuild'

export declare function program(
  folder: string,
  plugins?: readonly Plugin[],
): Promise<Map<string, string | Uint8Array>>
