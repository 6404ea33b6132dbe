export declare function nodeProblem(engines: string, version?: string): string | undefined
