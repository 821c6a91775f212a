/** Where the module of scripts is. */
export declare const generatedPath: string;
/** The module as it should be. */
export declare function generated(): string;
export declare function writeGenerated(): void;
