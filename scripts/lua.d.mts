/** The stores that have scripts. */
export declare const scriptedStores: readonly string[];
/** Where the module of a store's scripts is. */
export declare function generatedPath(store: string): string;
/** The module as it should be. */
export declare function generated(store: string): string;
export declare function writeGenerated(): void;
