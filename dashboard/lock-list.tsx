// The list of locks. It draws only the rows that can be seen, so 10,000 locks cost as much as twenty.

import { useEffect, useRef, useState } from "preact/hooks";
import type { LockJson } from "./model.ts";
import { clean, time } from "./words.ts";

const WIDE_ROW = 40;
const NARROW_ROW = 60;
/** Rows above and below the visible ones. */
const MORE = 6;

export interface LockListProps {
  readonly locks: readonly LockJson[];
  readonly nowMs: number;
  readonly isNarrow: boolean;
  readonly open: (key: string) => void;
}

export function LockList({ locks, nowMs, isNarrow, open }: LockListProps) {
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState(0);
  const [height, setHeight] = useState(400);
  const [active, setActive] = useState(0);
  const row = isNarrow ? NARROW_ROW : WIDE_ROW;
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const resized = new ResizeObserver(() => setHeight(element.clientHeight));
    resized.observe(element);
    return () => resized.disconnect();
  }, []);

  const last = locks.length - 1;
  const current = Math.min(active, Math.max(0, last));
  const first = Math.max(0, Math.floor(scroll / row) - MORE);
  const shown = locks.slice(first, first + Math.ceil(height / row) + 2 * MORE);

  const goTo = (index: number): void => {
    const next = Math.max(0, Math.min(last, index));
    setActive(next);
    const element = box.current;
    if (element === null) return;
    if (next * row < element.scrollTop) element.scrollTop = next * row;
    else if ((next + 1) * row > element.scrollTop + element.clientHeight)
      element.scrollTop = (next + 1) * row - element.clientHeight;
  };
  const pressed = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(height / row) - 1);
    const moves: Readonly<Record<string, number>> = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: last,
    };
    const to = moves[event.key];
    const lock = locks[current];
    if (to !== undefined) goTo(to);
    else if (event.key === "Enter" && lock !== undefined) open(lock.key);
    else return;
    event.preventDefault();
  };

  if (locks.length === 0) return <p class="empty">No lock to show.</p>;
  return (
    <div
      ref={box}
      class="list"
      role="listbox"
      aria-label="Locks"
      tabIndex={0}
      aria-activedescendant={`lock-${current}`}
      onScroll={(event) => setScroll(event.currentTarget.scrollTop)}
      onKeyDown={pressed}
    >
      <div class="space" role="presentation" style={{ height: `${locks.length * row}px` }}>
        {shown.map((lock, i) => (
          <Row
            key={lock.key}
            lock={lock}
            index={first + i}
            count={locks.length}
            top={(first + i) * row}
            isActive={first + i === current}
            nowMs={nowMs}
            open={() => {
              setActive(first + i);
              open(lock.key);
            }}
          />
        ))}
      </div>
    </div>
  );
}

interface RowProps {
  readonly lock: LockJson;
  readonly index: number;
  readonly count: number;
  readonly top: number;
  readonly isActive: boolean;
  readonly nowMs: number;
  readonly open: () => void;
}

/** Longer keys and labels are cut in the list; the details show them whole. */
const LONGEST = 200;
const short = (text: string): string => clean(text.slice(0, LONGEST));

function Row({ lock, index, count, top, isActive, nowMs, open }: RowProps) {
  const [holder] = lock.holders;
  const waiting = lock.waiters?.length ?? 0;
  const more = lock.holders.length > 1 ? ` +${lock.holders.length - 1}` : "";
  const since = Math.min(...lock.holders.map((one) => one.since));
  const until = Math.max(...lock.holders.map((one) => one.until));
  return (
    <div
      id={`lock-${index}`}
      class={isActive ? "row active" : "row"}
      role="option"
      aria-selected={isActive}
      aria-setsize={count}
      aria-posinset={index + 1}
      style={{ transform: `translateY(${top}px)` }}
      onClick={open}
    >
      <bdi class="key">{short(lock.key)}</bdi>
      <span class="holder">
        {holder === undefined ? "free" : <bdi>{short(holder.label)}</bdi>}
        {more}
        {holder?.revoked ? <span class="tag danger">revoked</span> : null}
        {holder?.kept ? <span class="tag">kept</span> : null}
      </span>
      <span class="number">{holder === undefined ? "" : time(nowMs - since)}</span>
      <span class="number left">{holder === undefined ? "" : `${time(until - nowMs)} left`}</span>
      <span class={waiting > 0 ? "number waiting some" : "number waiting"}>
        {lock.waiters === null ? "?" : waiting} waiting
      </span>
    </div>
  );
}
