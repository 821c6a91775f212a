export const WRONG_USAGE: 64;

export function readUsage<T>(usage: string, read: (args: string[]) => T, args?: string[]): T;

export function wholeNumber(name: string, text: string, least?: number): number;
