import { expect, test } from "vitest";
import type { Machine } from "../stores/local/machine.ts";
import { defaultStoreWarning } from "./default-store.ts";

const HOST: Machine = {
  mounts: "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
  pidNamespace: "pid:[4026531836]",
  isMarked: false,
};
const CONTAINER: Machine = { ...HOST, pidNamespace: "pid:[4026532198]" };

test("the default store is mentioned inside a container and for root, and otherwise not", () => {
  expect(defaultStoreWarning(HOST, 1_000)).toBeNull();
  expect(defaultStoreWarning(HOST, null)).toBeNull();
  expect(defaultStoreWarning(HOST, 0)).toMatch(
    /only the processes of root on this machine share locks\. .*--store local:/,
  );
  expect(defaultStoreWarning(CONTAINER, 1_000)).toMatch(
    /only the processes of this container share locks\. .*--store local:/,
  );
});
