export function finishBuild(dist: string): void;
