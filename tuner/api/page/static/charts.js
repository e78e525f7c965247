/* One small chart for each throttle: traffic, throttle, steady-state replication, minimum rate and ceiling. */
"use strict";

const charts = (() => {
  const KEPT = 180; // The tuner keeps the same number.
  const LARGE = 200; // From this height on, a chart has the sizes of a wall screen: it is read from two metres.
  const drawn = new Map(); // Element id → uPlot.
  let page = null;
  let known = { brokers: "", timesMs: [], rows: {}, maxRates: [], maxRate: null };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const MB = 1e6;
  // With seconds while the chart spans less than two minutes, because its ticks would repeat the minute.
  const clockText = (s, spanS) => new Date(s * 1000).toISOString().slice(11, spanS < 120 ? 19 : 16);
  const rateText = (megabytes) => units.rateText(megabytes * MB);

  /* Returns the sizes of letters, lines and distances in a chart of this height. */
  const sizes = (height) =>
    height >= LARGE
      ? { letter: 20, line: 4, labelSize: 26, x: { size: 32, space: 150 }, y: { size: 64, space: 44 } }
      : { letter: 13, line: 2, labelSize: 17, x: { size: 20, space: 80 }, y: { size: 42, space: 26 } };
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

  /* Returns the lines with the width and the dashes for this height; a line of width 0 stays. */
  function sized(series, height) {
    const { line } = sizes(height);
    return series.map((each) => (each.width === 0 ? each : { ...each, width: line, dash: each.dash?.map((length) => (length * line) / 2) }));
  }

  /* Returns the two axes of a chart; `time` has the texts of its ticks, and may have their distances. */
  function axes(height, label, time) {
    const { letter, labelSize, x, y } = sizes(height);
    const font = `${letter}px system-ui`;
    const axis = { stroke: () => colour("dim"), font, labelFont: font, labelSize, labelGap: 0, ticks: { show: false }, grid: { stroke: () => colour("line"), width: 1 } };
    return [
      { ...axis, ...x, label: "time, UTC", ...time },
      { ...axis, ...y, label, values: (self, ticks) => ticks.map((tick) => compact.format(tick)) },
    ];
  }

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
    // In the meantime another response may have brought the same values, or the page may show other brokers.
    const places = shown();
    if ((same && known !== based) || brokersOf(places).join() !== brokers.join()) return;
    take(came, same ? based : { brokers: brokers.join(), timesMs: [], rows: {}, maxRates: [] });
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
    // The ceiling at each time, because an operator may have changed it.
    const maxRates = [...before.maxRates, ...came.max_rates_bytes_per_s].slice(-KEPT);
    known = { brokers: before.brokers, timesMs, rows, maxRates, maxRate: came.rate_bytes_per_s_max };
  }

  function show(place) {
    const { broker, side } = place.dataset;
    const columns = known.rows[broker];
    if (!columns) return;
    const of = (what) => columns[`${side}_${what}_bytes_per_s`].map((value) => (value === null ? null : value / MB));
    const limit = of("current_rate");
    const highest = Math.max(0, ...of("throttled"), ...limit, ...of("steady_state"), ...of("min_rate"));
    const maxRate = known.maxRate / MB;
    // A ceiling far above the other lines would press them to the bottom, so the upper edge of the chart names it instead.
    const above = maxRate > 3 * highest;
    const maxRates = known.maxRates.map((value) => (value / MB > 3 * highest ? null : value / MB));
    place.dataset.above = above ? `↑ ceiling ${rateText(maxRate)}` : "";
    const data = [
      known.timesMs.map((ms) => ms / 1000), of("throttled"), limit, of("steady_state"), of("min_rate"), maxRates,
    ];
    describe(place, broker, side, data, maxRate, above);
    let chart = drawn.get(place.id);
    if (chart && chart.height !== place.clientHeight) {
      chart.destroy(); // A chart that stands alone has larger letters and lines, too.
      chart = null;
    }
    if (chart) {
      chart.setData(data);
      if (chart.width !== place.clientWidth) chart.setSize({ width: place.clientWidth, height: place.clientHeight });
    } else {
      const made = new uPlot(options(place.clientWidth, place.clientHeight), data, place);
      made.over.addEventListener("click", (event) => openDecision(broker, side, Math.round(made.posToVal(event.offsetX, "x") * 1000)));
      drawn.set(place.id, made);
    }
  }

  /* Opens the newest decision about this throttle at this time, which also says why a rate stays: one of a cycle, or one of a second.

     The tuner's memory may begin later. Then the page opens the decision with the id `older`, which it knows from the journal. */
  async function openDecision(broker, side, atMs, older) {
    const path = `/api/v1/decisions?broker=${broker}&side=${side}&to_ms=${atMs}&limit=1&inputs=false`;
    const answers = await Promise.all([page.ask(path), page.ask(`${path}&steering_ticks=true`)]);
    if (!answers.every((answer) => answer.ok)) return page.say("The tuner does not answer. Try again.");
    const bodies = await Promise.all(answers.map((answer) => answer.json()));
    const [newest] = bodies.flatMap((body) => body.decisions).sort((one, other) => other.at_ms - one.at_ms);
    const id = newest?.id ?? older;
    if (id) location.assign(`/decisions/${id}`);
    else page.say(`The tuner knows no decision about this throttle before ${clockText(atMs / 1000, 0)} UTC. The history of the broker has older ones.`);
  }

  function describe(place, broker, side, data, maxRate, above) {
    const said = ["traffic", "throttle", "steady-state replication", "minimum rate"].map((what, number) => {
      const value = data[number + 1].at(-1);
      return value === null || value === undefined ? `${what} unknown` : `${what} ${rateText(value)}`;
    });
    said.push(`ceiling ${rateText(maxRate)}${above ? ", above the chart" : ""}`);
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", `Broker ${broker} ${side} side over time: ${said.join(", ")}`);
  }

  function options(width, height) {
    const line = (name, dash, stepped) => ({
      stroke: () => colour(name),
      dash,
      points: { show: false },
      paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
    });
    return {
      width,
      height,
      legend: { show: false },
      cursor: { show: false },
      scales: { y: { range: (self, low, high) => [0, Math.max(1, (high || 1) * 1.1)] } },
      axes: axes(height, "MB/s", { values: (self, ticks) => ticks.map((s) => clockText(s, ticks.at(-1) - ticks[0])) }),
      series: sized([{}, line("actual"), line("limit", undefined, true), line("steady-state", [5, 4]), line("min-rate", [9, 3, 2, 3]), line("max-rate", [2, 4], true)], height),
    };
  }

  addEventListener("rheostat-begin", (event) => (page = event.detail));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((chart) => chart.redraw()));
  addEventListener("resize", () =>
    drawn.forEach((chart, id) => chart.setSize({ width: document.getElementById(id)?.clientWidth || chart.width, height: chart.height })),
  );
  return { draw, axes, sized, sizes, colour, openDecision, data: (id) => drawn.get(id)?.data };
})();
