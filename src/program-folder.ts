/** Where the program lies: src/ or dist/, also for what was bundled into one file, which lies there as well. */
export const programFolder = new URL('./', import.meta.url)
