export declare const root: string
export declare function isStale(repository?: string): boolean
