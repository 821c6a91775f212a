const { createLocks, LockError } = require("holdfast");

async function main() {
  const locks = createLocks("memory:");
  await locks.using("order:42", async (lease) => {
    if (!lease.held) throw new Error("not held");
    const refused = await locks.acquire("order:42").catch((error) => error);
    if (!LockError.is(refused)) throw new Error("expected a deadlock of the call with itself");
  });
  await locks.close();
  console.log("holdfast works");
}

void main();
