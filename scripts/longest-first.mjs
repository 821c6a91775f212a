// The order in which vitest starts the files of tests: the longest first, so that no long file is left for
// the end. The list names files that take 10 seconds or more on two idle cores; the others follow by name.
import { relative } from "node:path";
import { BaseSequencer } from "vitest/node";

const LONGEST = [];

export class LongestFirst extends BaseSequencer {
  sort(specifications) {
    const place = ({ moduleId }) => {
      const at = LONGEST.indexOf(relative(this.ctx.config.root, moduleId));
      return at === -1 ? LONGEST.length : at;
    };
    return specifications.toSorted(
      (one, two) => place(one) - place(two) || one.moduleId.localeCompare(two.moduleId),
    );
  }
}
