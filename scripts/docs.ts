/** Writes the pages under docs/ that come from the code. */
import { writeFileSync } from 'node:fs'
import { settingsPage } from '../src/settings/text.ts'

writeFileSync(new URL('../docs/settings.md', import.meta.url), settingsPage())
