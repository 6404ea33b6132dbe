import { readFileSync } from 'node:fs'
import { programFolder } from './program-folder.ts'

/** The version in package.json, which lies one folder up from src/ and dist/ alike. */
export const version: string = JSON.parse(
  readFileSync(new URL('../package.json', programFolder), 'utf8'),
).version
