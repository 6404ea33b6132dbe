export declare function blockOf(readme: string): string
