export interface TestPart {
  readonly name: string;
  readonly isLong: boolean;
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

export function testParts(root: string): TestPart[];
