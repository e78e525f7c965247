/* One small chart for each throttle: what passes, the throttle, what must pass to keep up, and the ceiling. */
"use strict";

const charts = (() => {
  const KEPT = 180; // As many as the tuner keeps.
  const HEIGHT = 110;
  const drawn = new Map(); // Element id → uPlot.
  let known = { brokers: "", timesMs: [], rows: {}, ceiling: null };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  async function draw(ask) {
    const places = [...document.querySelectorAll("#brokers .chart")];
    for (const [id, chart] of drawn) {
      if (!document.getElementById(id)) {
        chart.destroy();
        drawn.delete(id);
      }
    }
    const brokers = [...new Set(places.map((place) => place.dataset.broker))];
    if (!brokers.length) return;
    const same = known.brokers === brokers.join();
    const sinceMs = same ? known.timesMs.at(-1) || 0 : 0;
    const answer = await ask(`/api/v1/history?since_ms=${sinceMs}&${brokers.map((broker) => `broker=${broker}`).join("&")}`);
    if (!answer.ok) return;
    take(await answer.json(), same ? known : { brokers: brokers.join(), timesMs: [], rows: {} });
    for (const place of places) show(place);
  }

  function take(came, before) {
    const timesMs = [...before.timesMs, ...came.times_ms].slice(-KEPT);
    const rows = {};
    for (const [broker, columns] of Object.entries(came.brokers)) {
      rows[broker] = {};
      for (const [name, values] of Object.entries(columns)) {
        const old = before.rows[broker]?.[name] || Array(before.timesMs.length).fill(null);
        rows[broker][name] = [...old, ...values].slice(-KEPT);
      }
    }
    known = { brokers: before.brokers, timesMs, rows, ceiling: came.rate_bytes_per_s_max };
  }

  function show(place) {
    const { broker, side } = place.dataset;
    const columns = known.rows[broker];
    if (!columns) return;
    const of = (what) => columns[`${side}_${what}_bytes_per_s`].map((value) => (value === null ? null : value / 1e6));
    const limit = of("limit");
    const most = Math.max(0, ...of("actual"), ...limit, ...of("keep_up"));
    // A ceiling far above all that happens would leave a line at the bottom.
    const ceiling = known.ceiling / 1e6 <= 3 * most ? known.ceiling / 1e6 : null;
    const data = [known.timesMs.map((ms) => ms / 1000), of("actual"), limit, of("keep_up"), limit.map(() => ceiling)];
    describe(place, broker, side, data);
    const chart = drawn.get(place.id);
    if (chart) {
      chart.setData(data);
      if (chart.width !== place.clientWidth) chart.setSize({ width: place.clientWidth, height: HEIGHT });
    } else drawn.set(place.id, new uPlot(options(place.clientWidth), data, place));
  }

  function describe(place, broker, side, data) {
    const last = (values) => values.at(-1);
    const text = (what, value) => (value === null || value === undefined ? `${what} not known` : `${what} ${value.toFixed(1)} MB/s`);
    place.setAttribute("role", "img");
    place.setAttribute(
      "aria-label",
      `Broker ${broker} ${side} side over time: ${text("passes", last(data[1]))}, ${text("throttle", last(data[2]))}, ${text("must pass", last(data[3]))}`,
    );
  }

  function options(width) {
    const line = (name, dash, stepped) => ({
      stroke: () => colour(name),
      width: 2,
      dash,
      points: { show: false },
      paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
    });
    const axis = { stroke: () => colour("dim"), font: "11px system-ui", ticks: { show: false }, grid: { stroke: () => colour("line"), width: 1 } };
    return {
      width,
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: (self, low, high) => [0, Math.max(1, (high || 1) * 1.1)] } },
      axes: [
        { ...axis, size: 22, space: 70, values: (self, ticks) => ticks.map((s) => new Date(s * 1000).toISOString().slice(11, 16)) },
        { ...axis, size: 46, space: 26, values: (self, ticks) => ticks.map((mb) => `${mb} MB`) },
      ],
      series: [{}, line("actual"), line("limit", undefined, true), line("keep-up", [5, 4]), line("ceiling", [2, 4])],
    };
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((chart) => chart.redraw()));
  addEventListener("resize", () =>
    drawn.forEach((chart, id) => chart.setSize({ width: document.getElementById(id)?.clientWidth || chart.width, height: HEIGHT })),
  );
  return { draw };
})();
