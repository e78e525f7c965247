/* The history of one broker over hours to weeks: throttles, latency and lag, with zoom and pan, and marks that open their decision.

   The address has the range: ?last=6h follows the present, ?from=…&to=… stays. */
"use strict";

const brokerHistory = (() => {
  const AGAIN_MS = 30000;
  const MINUTE_MS = 60000;
  const HOUR_MS = 60 * MINUTE_MS;
  const DAY_S = 86400;
  const RANGE_MS_MAX = 35 * 24 * HOUR_MS;
  const NEAR_PX = 8;
  const MB = 1e6;
  const LETTERS = { fail_over: "F", restart: "R", settings: "S", order: "P", external_change: "X" };
  const drawn = new Map(); // Element id → uPlot.
  let page = null;
  let body = null; // The newest answer.
  let timer = null;
  let asked = 0; // Numbers the requests, as an earlier one may be answered later.

  const one = (selector) => document.querySelector(selector);
  const broker = () => one("#range").dataset.broker;
  const iso = (ms) => new Date(ms).toISOString().replace(/:\d\d\.\d+Z$/, "Z");
  const day = (s) => new Date(s * 1000).toUTCString().slice(5, 11);
  const clock = (s, spanS) => new Date(s * 1000).toISOString().slice(11, spanS < 600 ? 19 : 16);

  function spanText(ms) {
    const hours = ms / HOUR_MS;
    if (hours < 2) return `${Math.round(hours * 60)} min`;
    return hours < 72 ? `${Math.round(hours)} h` : `${Math.round(hours / 24)} d`;
  }

  /* -- the range ---------------------------------------------------------------------------------------------------------- */

  /* Returns the range of the address; an address that cannot be read means the last day. */
  function range() {
    const given = new URLSearchParams(location.search);
    const [from, to] = ["from", "to"].map((name) => Date.parse(given.get(name) ?? ""));
    if (!Number.isNaN(from) && !Number.isNaN(to) && from < to) return { fromMs: from, toMs: to, follows: false };
    const last = /^([0-9]{1,4})([hd])$/.exec(given.get("last") ?? "1d") ?? [null, "1", "d"];
    const spanMs = Math.min(RANGE_MS_MAX, Math.max(MINUTE_MS, Number(last[1]) * (last[2] === "h" ? HOUR_MS : 24 * HOUR_MS)));
    // The tuner's clock counts: that of this machine may be wrong.
    return { spanMs, follows: true };
  }

  function query() {
    const { fromMs, toMs, spanMs, follows } = range();
    if (!follows) return `from_ms=${Math.max(0, fromMs)}&to_ms=${Math.max(0, toMs)}`;
    return body ? `from_ms=${Math.max(0, body.now_ms - spanMs)}` : "";
  }

  function show(fromMs, toMs) {
    history.pushState(null, "", `?from=${iso(fromMs)}&to=${iso(Math.max(toMs, fromMs + MINUTE_MS))}`);
    load();
  }

  function move(how) {
    if (!body) return;
    const { from_ms: from, to_ms: to } = body;
    const span = to - from;
    const ways = { earlier: [from - span / 2, to - span / 2], later: [from + span / 2, to + span / 2], in: [from + span / 4, to - span / 4], out: [from - span / 2, to + span / 2] };
    let [start, end] = ways[how];
    if (end > body.now_ms) [start, end] = [start - (end - body.now_ms), body.now_ms];
    show(Math.max(start, body.now_ms - RANGE_MS_MAX), end);
  }

  /* -- requests ----------------------------------------------------------------------------------------------------------- */

  async function load() {
    clearTimeout(timer);
    timer = setTimeout(() => (document.hidden ? undefined : load()), AGAIN_MS);
    const mine = ++asked;
    try {
      if (!body && range().follows) body = { now_ms: await tunerTime() };
      const answer = await page.ask(`/api/v1/brokers/${broker()}/history?${query()}`);
      const came = await answer.json();
      if (mine !== asked) return;
      if (!answer.ok) return void say(`${String(came.detail)}.`);
      body = came;
      draw();
      htmx.ajax("GET", `/page/broker/${broker()}?from_ms=${body.from_ms}&to_ms=${body.to_ms}`, "#history-marks");
    } catch {
      if (mine === asked) say("The tuner does not answer. The page tries again.");
    }
  }

  async function tunerTime() {
    const answer = await page.ask("/api/v1/status");
    return answer.ok ? (await answer.json()).now_ms : Date.now();
  }

  function say(text) {
    page.write(one("#history-range"), text[0].toUpperCase() + text.slice(1));
  }

  /* -- data: all lines of a chart have the same times, in seconds, and each value holds until the next time ------------------ */

  function timesOf(lines) {
    const { start_ms: start, step_ms: step, produce_p99_ms: steps } = body.measured;
    const all = [...steps.map((_, number) => start + number * step), ...lines.flat(), body.from_ms, body.to_ms];
    return [...new Set(all)].filter((ms) => ms >= body.from_ms && ms <= body.to_ms).sort((a, b) => a - b);
  }

  function measured(times, name, scale = 1) {
    const { start_ms: start, step_ms: step } = body.measured;
    return times.map((ms) => {
      const value = body.measured[name][Math.floor((ms - start) / step)] ?? null;
      return value === null ? null : value / scale;
    });
  }

  /* Returns at each time the value of the last point that is not later. */
  function held(times, starts, values) {
    let next = 0;
    let value = null;
    return times.map((ms) => {
      while (next < starts.length && starts[next] <= ms) value = values[next++];
      return value;
    });
  }

  const inForce = (times, name, scale = 1) =>
    held(times, body.in_force.map((each) => each.since_ms), body.in_force.map((each) => (each[name] === null ? null : each[name] / scale)));

  function throttleChart(side, traffic) {
    const line = body.throttles[side];
    const times = timesOf([line.times_ms, body.in_force.map((each) => each.since_ms)]);
    const rates = held(times, line.times_ms, line.bytes_per_s.map((value) => (value === null ? null : value / MB)));
    const passed = measured(times, traffic, MB);
    const highest = Math.max(0, ...rates, ...passed);
    // A ceiling far above the other lines would press them to the bottom, so the upper edge of the chart names it instead.
    const ceilings = inForce(times, "rate_bytes_per_s_max", MB);
    const isAbove = (value) => value > 3 * highest;
    const newest = ceilings.findLast((value) => value !== null) ?? null;
    return {
      data: [times.map((ms) => ms / 1000), passed, rates, ceilings.map((value) => (isAbove(value) ? null : value))],
      series: [line_("actual"), line_("limit"), line_("max-rate", [9, 4])],
      label: "MB/s",
      above: isAbove(newest) ? `↑ ceiling ${units.rateText(newest * MB)}` : "",
      said: `${side} side: ${said("replication", passed, rateText)}, ${said("throttle", rates, rateText)}, ${said("ceiling", ceilings, rateText)}`,
    };
  }

  function measuredChart(name, label, objective) {
    const times = timesOf([body.in_force.map((each) => each.since_ms)]);
    const values = measured(times, name);
    const limits = objective ? inForce(times, "latency_ms") : times.map(() => null);
    const text = (value) => `${value.toPrecision(3)} ${label}`;
    return {
      data: [times.map((ms) => ms / 1000), values, limits],
      series: [line_("actual"), line_("limit", [6, 4])],
      label,
      above: "",
      said: `${objective ? "Produce latency" : "Replication lag"}: ${said("highest", values, text)}${objective ? `, ${said("objective", limits, text)}` : ""}`,
    };
  }

  const rateText = (megabytes) => units.rateText(megabytes * MB);

  function said(name, values, text) {
    const known = values.filter((value) => value !== null);
    return known.length ? `${name} ${text(Math.min(...known))} to ${text(Math.max(...known))}` : `${name} unknown`;
  }

  /* -- drawing ------------------------------------------------------------------------------------------------------------ */

  const line_ = (name, dash) => ({ stroke: () => charts.colour(name), dash, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) });

  function draw() {
    const [from, to] = [body.from_ms, body.to_ms].map((ms) => iso(ms).replace("T", " ").replace("Z", ""));
    say(`${from} to ${to} UTC: ${spanText(body.to_ms - body.from_ms)}`);
    one("#history-notes").replaceChildren(...body.notes.map((text) => { const item = document.createElement("li"); page.write(item, text); return item; }));
    for (const link of document.querySelectorAll("[data-last]")) {
      const chosen = new URLSearchParams(location.search).get("last") ?? (location.search ? "" : "1d");
      link.toggleAttribute("aria-current", link.dataset.last === chosen);
    }
    put("history-leader", throttleChart("leader", "replication_out_bytes_per_s"), "leader");
    put("history-follower", throttleChart("follower", "replication_in_bytes_per_s"), "follower");
    put("history-latency", measuredChart("produce_p99_ms", "ms", true));
    put("history-lag", measuredChart("lag_messages", "messages", false));
  }

  function put(id, { data, series, label, above, said: text }, side) {
    const place = one(`#${id}`);
    place.dataset.above = above;
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", `Broker ${broker()}, ${text}. ${body.marks.length} events`);
    drawn.get(id)?.destroy();
    const height = place.clientHeight;
    const spanS = (body.to_ms - body.from_ms) / 1000;
    const chart = new uPlot(
      {
        width: place.clientWidth,
        height,
        legend: { show: false },
        cursor: { points: { show: false }, y: false, drag: { x: true, y: false, setScale: false } },
        tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "UTC"),
        scales: { x: { range: () => [body.from_ms / 1000, body.to_ms / 1000] }, y: { range: (self, low, high) => [0, Math.max(1, (high || 1) * 1.1)] } },
        axes: charts.axes(height, label, { values: (self, ticks) => ticks.map((s) => (s % DAY_S === 0 ? day(s) : clock(s, spanS))) }),
        series: charts.sized([{}, ...series], height),
        hooks: { draw: [drawMarks], setSelect: [(self) => select(self)] },
      },
      data,
      place,
    );
    chart.over.addEventListener("click", (event) => event.detail === 1 && !chart.select.width && open(chart, event.offsetX, side));
    drawn.set(id, chart);
  }

  function select(chart) {
    const { left, width } = chart.select;
    if (width < NEAR_PX) return;
    const [from, to] = [left, left + width].map((x) => Math.round(chart.posToVal(x, "x") * 1000));
    chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    show(from, to);
  }

  function drawMarks(chart) {
    const { ctx, bbox } = chart;
    ctx.save();
    const letterSize = charts.sizes(chart.height).letter;
    ctx.font = `${letterSize * devicePixelRatio}px system-ui`;
    ctx.textAlign = "center";
    for (const mark of body.marks) {
      const x = chart.valToPos(mark.at_ms / 1000, "x", true);
      const letter = LETTERS[mark.kind];
      ctx.strokeStyle = ctx.fillStyle = charts.colour(letter ? "bad" : "dim");
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash(letter ? [2 * devicePixelRatio, 3 * devicePixelRatio] : []);
      ctx.beginPath();
      ctx.moveTo(x, letter ? bbox.top : bbox.top + bbox.height - 8 * devicePixelRatio);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (letter) ctx.fillText(letter, x, bbox.top + letterSize * devicePixelRatio);
    }
    ctx.restore();
  }

  /* Opens the mark at this place, or else the newest decision about this throttle before it. */
  function open(chart, x, side) {
    const near = body.marks.filter((mark) => Math.abs(chart.valToPos(mark.at_ms / 1000, "x") - x) <= NEAR_PX);
    const atMs = Math.round(chart.posToVal(x, "x") * 1000);
    const [mark] = near.sort((a, b) => Boolean(LETTERS[b.kind]) - Boolean(LETTERS[a.kind]) || b.at_ms - a.at_ms);
    if (mark) location.assign(`/decisions/${mark.id}`);
    else if (side) charts.openDecision(broker(), side, atMs, body.marks.findLast((each) => each.kind === "decision" && each.at_ms <= atMs)?.id);
  }

  function begin(given) {
    page = given;
    for (const button of document.querySelectorAll("[data-move]")) button.addEventListener("click", () => move(button.dataset.move));
    for (const link of document.querySelectorAll("[data-last]"))
      link.addEventListener("click", (event) => {
        event.preventDefault();
        history.pushState(null, "", link.getAttribute("href"));
        load();
      });
    const keys = { ArrowLeft: "earlier", ArrowRight: "later", "+": "in", "-": "out", "−": "out" };
    for (const place of document.querySelectorAll("#history-charts .chart"))
      place.addEventListener("keydown", (event) => {
        if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        move(keys[event.key]);
      });
    addEventListener("popstate", load);
    addEventListener("resize", () => body && draw());
    document.addEventListener("visibilitychange", () => document.hidden || load());
    one("#token").addEventListener("close", load);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((chart) => chart.redraw()));
    load();
  }

  addEventListener("rheostat-begin", (event) => begin(event.detail));
  return { data: (id) => drawn.get(id)?.data, answer: () => body };
})();
