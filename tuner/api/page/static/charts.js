/* One small chart for each throttle: what passes, the throttle, what must pass to keep up, floor and ceiling. */
"use strict";

const charts = (() => {
  const KEPT = 180; // As many as the tuner keeps.
  const HEIGHT = 110;
  const drawn = new Map(); // Element id → uPlot.
  let known = { brokers: "", timesMs: [], rows: {}, ceilings: [], ceiling: null };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const MB = 1e6;
  const rateText = (megabytes) => units.rateText(megabytes * MB);

  const shown = () => [...document.querySelectorAll("#brokers .chart")];
  const brokersOf = (places) => [...new Set(places.map((place) => place.dataset.broker))];

  async function draw(ask) {
    for (const [id, chart] of drawn) {
      if (!document.getElementById(id)) {
        chart.destroy();
        drawn.delete(id);
      }
    }
    const brokers = brokersOf(shown());
    if (!brokers.length) return;
    const based = known;
    const same = based.brokers === brokers.join();
    const sinceMs = same ? based.timesMs.at(-1) || 0 : 0;
    const answer = await ask(`/api/v1/history?since_ms=${sinceMs}&${brokers.map((broker) => `broker=${broker}`).join("&")}`);
    if (!answer.ok) return;
    const came = await answer.json();
    // While it was on its way another answer may have brought the same, or somebody may have gone to other brokers.
    const places = shown();
    if ((same && known !== based) || brokersOf(places).join() !== brokers.join()) return;
    take(came, same ? based : { brokers: brokers.join(), timesMs: [], rows: {}, ceilings: [] });
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
    // As it was at each time: a ceiling that was lowered since has not been violated before.
    const ceilings = [...before.ceilings, ...came.max_rates_bytes_per_s].slice(-KEPT);
    known = { brokers: before.brokers, timesMs, rows, ceilings, ceiling: came.rate_bytes_per_s_max };
  }

  function show(place) {
    const { broker, side } = place.dataset;
    const columns = known.rows[broker];
    if (!columns) return;
    const of = (what) => columns[`${side}_${what}_bytes_per_s`].map((value) => (value === null ? null : value / MB));
    const limit = of("current_rate");
    const most = Math.max(0, ...of("throttled"), ...limit, ...of("steady_state"), ...of("min_rate"));
    const ceiling = known.ceiling / MB;
    // Drawn far above all that happens it would leave a line at the bottom, so then it is told at the edge.
    const above = ceiling > 3 * most;
    const ceilings = known.ceilings.map((value) => (value / MB > 3 * most ? null : value / MB));
    place.dataset.above = above ? `↑ ceiling ${rateText(ceiling)}` : "";
    const data = [
      known.timesMs.map((ms) => ms / 1000), of("throttled"), limit, of("steady_state"), of("min_rate"), ceilings,
    ];
    describe(place, broker, side, data, ceiling, above);
    const chart = drawn.get(place.id);
    if (chart) {
      chart.setData(data);
      if (chart.width !== place.clientWidth) chart.setSize({ width: place.clientWidth, height: HEIGHT });
    } else drawn.set(place.id, new uPlot(options(place.clientWidth), data, place));
  }

  function describe(place, broker, side, data, ceiling, above) {
    const said = ["passes", "throttle", "must pass", "floor"].map((what, number) => {
      const value = data[number + 1].at(-1);
      return value === null || value === undefined ? `${what} not known` : `${what} ${rateText(value)}`;
    });
    said.push(`ceiling ${rateText(ceiling)}${above ? ", above the chart" : ""}`);
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", `Broker ${broker} ${side} side over time: ${said.join(", ")}`);
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
        { ...axis, size: 62, space: 26, values: (self, ticks) => ticks.map((mb) => `${mb} MB/s`) },
      ],
      series: [{}, line("actual"), line("limit", undefined, true), line("keep-up", [5, 4]), line("floor", [9, 3, 2, 3]), line("ceiling", [2, 4], true)],
    };
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((chart) => chart.redraw()));
  addEventListener("resize", () =>
    drawn.forEach((chart, id) => chart.setSize({ width: document.getElementById(id)?.clientWidth || chart.width, height: HEIGHT })),
  );
  return { draw, data: (id) => drawn.get(id)?.data };
})();
