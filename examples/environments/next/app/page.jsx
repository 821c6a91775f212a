import { createLocks } from "holdfast";

export const dynamic = "force-dynamic";

const locks = createLocks("memory:");

export default async function Page() {
  const fence = await locks.using("page", (lease) => lease.fence);
  return <p>{`fence ${fence}`}</p>;
}
