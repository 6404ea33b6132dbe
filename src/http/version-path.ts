import { foldPath } from './fold-path.ts'

const versionSegment = /^\/v\d+(?:[./]|$)/i

/** Whether an upstream router may take the path for one below `/v<number>`: /v3, /V4/x, //v4.1, /%76%34;a=b. */
export function mayBeVersioned(path: string): boolean {
  return foldPath(path).some((reading) => versionSegment.test(reading))
}
