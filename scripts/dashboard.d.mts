/** Where the module of the page is. */
export declare const generatedPage: string;
/** What is bundled, for the licences. */
export declare const PAGE_PACKAGES: readonly string[];
/** The module as it should be. */
export declare function pageModule(): string;
export declare function writePage(): void;
