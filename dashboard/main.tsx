// The page: what is held and waited for, what happens to it, and one key in detail.

import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Chart } from "./chart.tsx";
import { listen, setToken, takeToken } from "./connection.ts";
import { Details } from "./details.tsx";
import { LockList } from "./lock-list.tsx";
import { HOT_KEYS, type LockJson, Model } from "./model.ts";
import { clean, clock } from "./words.ts";

const model = new Model();
const BARS = ["<1s", "<2s", "<5s", "<10s", "<30s", "<1m", "<5m", "more"];

function useMedia(query: string): boolean {
  const [fits, setFits] = useState(matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const changed = (): void => setFits(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [query]);
  return fits;
}

type Order = "key" | "waiting" | "held";

function ordered(locks: Iterable<LockJson>, prefix: string, order: Order): readonly LockJson[] {
  const found = [...locks].filter(({ key }) => key.startsWith(prefix));
  const since = ({ holders }: LockJson): number => Math.min(...holders.map((holder) => holder.since));
  found.sort((a, b) => (a.key < b.key ? -1 : 1));
  if (order === "waiting") found.sort((a, b) => (b.waiters?.length ?? 0) - (a.waiters?.length ?? 0));
  if (order === "held") found.sort((a, b) => since(a) - since(b));
  return found;
}

type State = "connecting" | "live" | "lost" | "locked";

function App() {
  const [version, setVersion] = useState(0);
  const [state, setState] = useState<State>("connecting");
  const [, setTick] = useState(0);
  const [prefix, setPrefix] = useState("");
  const [order, setOrder] = useState<Order>("key");
  const [open, setOpen] = useState<string | null>(null);
  const isDark = useMedia("(prefers-color-scheme: dark)");
  const isNarrow = useMedia("(max-width: 760px)");
  const connect = (): void => {
    setState("connecting");
    void listen({
      message: (message) => {
        model.receive(message);
        setVersion(model.version);
      },
      connected: (isConnected) => setState(isConnected ? "live" : "lost"),
      refused: () => setState("locked"),
    });
  };
  useEffect(() => {
    connect();
    const timer = setInterval(() => setTick((tick) => tick + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  const locks = useMemo(() => ordered(model.locks.values(), prefix, order), [version, prefix, order]);
  if (state === "locked") return <AskToken then={connect} />;
  const theme = isDark ? "dark" : "light";
  return (
    <>
      <Header state={state} />
      <main>
        {model.away === null ? null : (
          <p class="alert danger" role="alert">
            The store does not answer: {clean(model.away)}
          </p>
        )}
        <Deadlocks open={setOpen} />
        <Tiles />
        <Charts theme={theme} open={setOpen} />
        <section class="card locks" aria-label="Locks">
          <div class="tools">
            <h2>Locks</h2>
            <label>
              <span>Prefix</span>
              <input
                type="search"
                value={prefix}
                placeholder="order:"
                spellcheck={false}
                onInput={(event) => setPrefix(event.currentTarget.value)}
              />
            </label>
            <label>
              <span>Order</span>
              <select value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
                <option value="key">by key</option>
                <option value="waiting">most waiting</option>
                <option value="held">held longest</option>
              </select>
            </label>
            <span class="count" role="status">
              {locks.length} of {model.locks.size}
            </span>
          </div>
          <LockList locks={locks} nowMs={model.nowMs} isNarrow={isNarrow} open={setOpen} />
        </section>
        <Findings />
      </main>
      {open === null ? null : <Details key={open} model={model} name={open} close={() => setOpen(null)} />}
    </>
  );
}

const STATES: Readonly<Record<State, string>> = {
  connecting: "connecting",
  live: "live",
  lost: "connection lost",
  locked: "locked",
};

function Header({ state }: { state: State }) {
  return (
    <header class="top">
      <h1>holdfast</h1>
      <bdi class="store">{clean(model.settings.title)}</bdi>
      <span class={`state ${state}`} role="status">
        {STATES[state]}
      </span>
    </header>
  );
}

function AskToken({ then }: { then: () => void }) {
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const token = new FormData(event.target as HTMLFormElement).get("token");
    if (typeof token === "string") setToken(token);
    then();
  };
  return (
    <main class="ask">
      <h1>holdfast</h1>
      <form class="card" onSubmit={submit}>
        <label>
          Token
          <input name="token" type="password" required autocomplete="off" />
        </label>
        <button type="submit">Show the locks</button>
        <p role="alert">The server asks for the token that it was started with.</p>
      </form>
    </main>
  );
}

function Tiles() {
  const last = model.points.at(-1);
  const tiles: readonly (readonly [string, number, boolean])[] = [
    ["held", last?.held ?? 0, false],
    ["waiting", last?.waiting ?? 0, false],
    ["grants seen", model.grants, false],
    ["expired", model.expired, model.expired > 0],
    ["revoked", model.revoked, model.revoked > 0],
    ["deadlocks", model.deadlocks.length, model.deadlocks.length > 0],
  ];
  return (
    <dl class="tiles">
      {tiles.map(([name, value, isBad]) => (
        <div key={name} class={isBad ? "card bad" : "card"}>
          <dt>{name}</dt>
          <dd>{value.toLocaleString("en")}</dd>
        </div>
      ))}
    </dl>
  );
}

function Charts({ theme, open }: { theme: string; open: (key: string) => void }) {
  const { points } = model;
  const times = points.map(({ at }) => at / 1_000);
  const last = points.at(-1);
  const hot = model.hottest();
  const heat = hot.map((key) => points.map((point) => point.heat.get(key) ?? 0));
  const bars = BARS.map((_, i) => i);
  const total = (histogram: readonly number[]): number => histogram.reduce((sum, count) => sum + count, 0);
  const inWords = (what: string, histogram: readonly number[]): string =>
    `${what}: ${histogram.map((count, i) => `${BARS[i]} ${count}`).join(", ")}`;
  return (
    <div class="charts">
      <section class="card" aria-label="Held and waiting">
        <h2>
          <i class="s1" /> Held <i class="s2" /> Waiting
        </h2>
        <Chart
          label={`Held ${last?.held ?? 0} and waiting ${last?.waiting ?? 0} over the last ten minutes`}
          names={["held", "waiting"]}
          data={[times, points.map(({ held }) => held), points.map(({ waiting }) => waiting)]}
          theme={theme}
        />
      </section>
      <section class="card" aria-label="Hot keys">
        <h2>Hot keys</h2>
        {hot.length === 0 ? (
          <p class="empty">No key is busy.</p>
        ) : (
          <>
            <Chart
              label={`Heat of the ${HOT_KEYS} busiest keys`}
              names={hot}
              data={[times, ...heat]}
              theme={theme}
            />
            <ul class="hot">
              {hot.map((key, i) => (
                <li key={key}>
                  <button type="button" class="link" onClick={() => open(key)}>
                    <i class={`s${i + 1}`} /> <bdi>{clean(key.slice(0, 60))}</bdi>
                  </button>
                </li>
              ))}
            </ul>
          </>
        )}
      </section>
      <section class="card" aria-label="Hold times">
        <h2>Hold times, {total(model.holdTimes)} seen</h2>
        <Chart
          label={inWords("Hold times", model.holdTimes)}
          names={["holds"]}
          data={[bars, model.holdTimes]}
          bars={BARS}
          theme={theme}
        />
      </section>
      <section class="card" aria-label="Wait times">
        <h2>Wait times, {total(model.waitTimes)} seen</h2>
        <Chart
          label={inWords("Wait times", model.waitTimes)}
          names={["waits"]}
          data={[bars, model.waitTimes]}
          bars={BARS}
          theme={theme}
        />
      </section>
    </div>
  );
}

const RADIUS = 90;
const CENTRE = { x: 160, y: 120 };

function Deadlocks({ open }: { open: (key: string) => void }) {
  const { deadlocks } = model;
  if (deadlocks.length === 0) return null;
  return (
    <section class="card bad" aria-label="Deadlocks">
      <h2>Deadlock: each holder waited for the next key</h2>
      <div class="cycles">
        {deadlocks.slice(0, 4).map(({ at, cycle }) => (
          <div key={cycle.join("\0")}>
            <Cycle cycle={cycle} />
            <p>
              <time>{clock(at)}</time>{" "}
              {cycle.map((key, i) => (
                <span key={key}>
                  {i > 0 ? " → " : ""}
                  <button type="button" class="link" onClick={() => open(key)}>
                    <bdi>{clean(key.slice(0, 60))}</bdi>
                  </button>
                </span>
              ))}
            </p>
          </div>
        ))}
      </div>
    </section>
  );
}

function Cycle({ cycle }: { cycle: readonly string[] }) {
  const place = (i: number): { readonly x: number; readonly y: number } => {
    const angle = (2 * Math.PI * i) / cycle.length - Math.PI / 2;
    return { x: CENTRE.x + RADIUS * Math.cos(angle), y: CENTRE.y + RADIUS * Math.sin(angle) };
  };
  const words = `Deadlock of ${cycle.map((key) => clean(key.slice(0, 60))).join(", then ")}`;
  return (
    <svg viewBox="0 0 320 240" role="img" aria-label={words}>
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M0 0 8 4 0 8z" />
        </marker>
      </defs>
      {cycle.map((key, i) => {
        const [a, b] = [place(i), place((i + 1) % cycle.length)];
        const bend = cycle.length === 2 ? (i === 0 ? 50 : -50) : 0;
        const [dx, dy] = [b.x - a.x, b.y - a.y];
        const length = Math.hypot(dx, dy) || 1;
        const [ux, uy] = [dx / length, dy / length];
        const middle = { x: (a.x + b.x) / 2 + bend, y: (a.y + b.y) / 2 };
        return (
          <path
            key={key}
            class="edge"
            marker-end="url(#arrow)"
            d={`M${a.x + ux * 14} ${a.y + uy * 14} Q${middle.x} ${middle.y} ${b.x - ux * 16} ${b.y - uy * 16}`}
          />
        );
      })}
      {cycle.map((key, i) => {
        const { x, y } = place(i);
        return (
          <g key={key}>
            <circle cx={x} cy={y} r={10} />
            <text x={x} y={y + (y < CENTRE.y ? -16 : 26)} text-anchor="middle">
              {clean(key.slice(0, 24))}
            </text>
          </g>
        );
      })}
    </svg>
  );
}

function Findings() {
  const { findings } = model;
  return (
    <section class="card findings" aria-label="Findings">
      <h2>What doctor says</h2>
      {findings.length === 0 ? <p class="empty">Nothing found.</p> : null}
      <ul>
        {findings.map(({ id, level, what, why, fix }, i) => (
          <li key={`${id} ${i}`}>
            <p>
              <span class={`tag ${level}`}>{level}</span> <strong>{id}</strong>: {clean(what)}
            </p>
            <p class="why">
              {clean(why)}. Fix: {clean(fix)}
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

takeToken();
const place = document.querySelector("#app");
if (place !== null) render(<App />, place);
