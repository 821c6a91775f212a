/** The stores that have statements. */
export declare function sqlStores(): string[];
/** Where the module of a store's statements is. */
export declare function sqlModule(store: string): string;
/** The module as it should be. */
export declare function generatedSql(store: string): string;
export declare function writeSql(): void;
