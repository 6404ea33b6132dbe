export declare function placeFiles(
  folder: string,
  files: ReadonlyMap<string, string | Uint8Array>,
  options: { last: string; startedAt?: Date },
): void
