// Everything about one key: holders, queue, what happened since the page was opened, and revoke.

import { useEffect, useRef, useState } from "preact/hooks";
import { send } from "./connection.ts";
import type { Holder, Model } from "./model.ts";
import { clean, clock, time } from "./words.ts";

export interface DetailsProps {
  readonly model: Model;
  readonly name: string;
  readonly close: () => void;
}

export function Details({ model, name, close }: DetailsProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const lock = model.locks.get(name);
  const nowMs = model.nowMs;
  const events = model.eventsOf(name).toReversed();
  return (
    <dialog ref={dialog} aria-labelledby="details-title" onClose={close}>
      <header>
        <h2 id="details-title">
          <bdi>{clean(name)}</bdi>
        </h2>
        <button type="button" class="quiet" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </header>
      <div class="body" tabIndex={0} role="region" aria-label="Details">
        <h3>{lock === undefined || lock.holders.length === 0 ? "Nobody holds it" : "Held by"}</h3>
        {lock?.holders.map((holder) => (
          <HolderView key={holder.fence} holder={holder} nowMs={nowMs} limit={lock.limit} />
        ))}
        <h3>Queue</h3>
        {lock?.waiters === null ? <p class="empty">This store does not know who waits.</p> : null}
        {lock === undefined || lock.waiters?.length === 0 ? <p class="empty">Nobody waits.</p> : null}
        <ol class="queue">
          {lock?.waiters?.slice(0, 200).map((waiter, i) => (
            <li key={i}>
              <bdi>{clean(waiter.label)}</bdi> for {time(nowMs - waiter.since)}
              {waiter.mode === "shared" ? ", shared" : ""}
            </li>
          ))}
        </ol>
        <h3>Since this page was opened</h3>
        {events.length === 0 ? <p class="empty">Nothing has happened.</p> : null}
        <ul class="events">
          {events.map(({ at, what }, i) => (
            <li key={i}>
              <time>{clock(at)}</time> <bdi>{clean(what)}</bdi>
            </li>
          ))}
        </ul>
        {model.settings.allowRevoke && lock !== undefined && lock.holders.length > 0 ? (
          <Revoke name={name} holders={lock.holders} />
        ) : null}
      </div>
    </dialog>
  );
}

function HolderView({ holder, nowMs, limit }: { holder: Holder; nowMs: number; limit: number }) {
  const facts: readonly (readonly [string, string])[] = [
    ["for", time(nowMs - holder.since)],
    ["left", time(holder.until - nowMs)],
    ["fence", holder.fence],
    ...(holder.mode === "shared" ? [["mode", "shared"] as const] : []),
    ...(limit > 1 ? [["permits", `${holder.permits} of ${limit}`] as const] : []),
    ...(holder.kept ? [["kept", "its callback has ended"] as const] : []),
    ...(holder.waitingFor === null ? [] : [["waits for", clean(holder.waitingFor)] as const]),
    ...(holder.revoked === null ? [] : [["revoked", clean(holder.revoked)] as const]),
  ];
  return (
    <div class="holder-view">
      <strong>
        <bdi>{clean(holder.label)}</bdi>
      </strong>
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <bdi>{value}</bdi>
            </dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function Revoke({ name, holders }: { name: string; holders: readonly Holder[] }) {
  const [isOpen, setOpen] = useState(false);
  const [outcome, setOutcome] = useState("");
  // The holder that was shown when the form was opened: another one is never revoked by mistake.
  const [fence, setFence] = useState("");
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const body = {
      key: name,
      confirm: form.get("confirm"),
      reason: form.get("reason"),
      fence,
      force: form.get("force") === "on",
    };
    const response = await send("revoke", { method: "POST", body: JSON.stringify(body) });
    const answer = response.headers.get("content-type")?.includes("json")
      ? ((await response.json()) as { readonly revoked?: boolean; readonly error?: string })
      : { error: await response.text() };
    setOutcome(answer.error ?? (answer.revoked === true ? "Revoked." : "It was free already."));
    if (answer.revoked === true) setOpen(false);
  };
  const open = (): void => {
    setFence(holders[0]?.fence ?? "");
    setOutcome("");
    setOpen(true);
  };
  return (
    <section class="revoke" aria-label="Revoke">
      {isOpen ? (
        <form onSubmit={(event) => void submit(event)}>
          <p>The holder with fence {fence} loses the key and is notified. Type the key again to confirm.</p>
          <label>
            Reason (shown to the holder)
            <input name="reason" required maxLength={500} autocomplete="off" />
          </label>
          <label>
            The key
            <input name="confirm" required autocomplete="off" spellcheck={false} />
          </label>
          <label class="check">
            <input type="checkbox" name="force" /> Free it at once, without waiting for the holder
          </label>
          <div class="buttons">
            <button type="submit" class="danger">
              Revoke
            </button>
            <button type="button" class="quiet" onClick={() => setOpen(false)}>
              Cancel
            </button>
          </div>
        </form>
      ) : (
        <button type="button" class="danger" onClick={open}>
          Revoke…
        </button>
      )}
      <p role="status">{clean(outcome)}</p>
    </section>
  );
}
