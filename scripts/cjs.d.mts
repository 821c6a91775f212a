export function writeCommonJs(dist: string): void;
