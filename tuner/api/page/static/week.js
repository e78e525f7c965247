/* The week of one broker in a dialog: load with forecast, latency with baseline and objective, copies, capacity and changes.

   The address of the page ends with #week-ID while the dialog is open, so that alerts and people can link to it. */
"use strict";

const week = (() => {
  const AGAIN_MS = 60000; // A period lasts ten minutes.
  const READING_MS = 2000; // While the tuner reads the history.
  const HOUR_S = 3600;
  const FORECAST_H_MIN = 24;
  const MB = 1e6;
  const drawn = new Map(); // Element id → uPlot.
  let page = null;
  let broker = null; // Whose week is open.
  let timer = null;
  let shown = null; // The answer that the charts show.

  const one = (selector) => document.querySelector(selector);
  const dialog = () => one("#week");
  const rate = (megabytes) => units.rateText(megabytes * MB);
  const inMB = (values) => values.map((value) => (value === null ? null : value / MB));
  const milliseconds = (value) => `${value.toPrecision(value >= 100 ? 3 : 2)} ms`;

  function open() {
    const asked = /^#week-([0-9]{1,10})$/.exec(location.hash);
    if (!asked) return void (dialog().open && dialog().close());
    if (broker !== asked[1]) clear();
    broker = asked[1];
    one("#week-title").textContent = `Week of broker ${broker}`;
    if (!dialog().open) dialog().showModal();
    load();
  }

  function closed() {
    if (dialog().open) return; // The browser reports the closing late, and the address has opened the dialog again meanwhile.
    clearTimeout(timer);
    const link = one(`#week-of-${broker}`);
    broker = null;
    history.replaceState(null, "", location.pathname + location.search);
    link?.focus(); // The link may have been drawn again meanwhile, and the browser only knows the old one.
  }

  function clear() {
    drawn.forEach((chart) => chart.destroy());
    drawn.clear();
    shown = null;
    one("#week-charts").hidden = true;
    for (const place of ["#week-facts", "#week-events"]) one(place).replaceChildren();
    say("The page asks the tuner.");
  }

  function say(text) {
    page.write(one("#week-said"), text);
  }

  async function load() {
    clearTimeout(timer);
    const asked = broker;
    let againMs = AGAIN_MS;
    try {
      const answer = await page.ask(`/api/v1/brokers/${asked}/week`);
      const body = await answer.json();
      if (asked !== broker) return; // Closed meanwhile, or another broker.
      if (answer.ok) show(body);
      else {
        say(`${body.detail[0].toUpperCase()}${body.detail.slice(1)}.`);
        if (answer.status === 503) againMs = READING_MS;
      }
    } catch {
      if (asked === broker) say("The tuner does not answer. The page tries again.");
    }
    if (asked === broker) timer = setTimeout(() => (document.hidden ? void (timer = setTimeout(load, AGAIN_MS)) : load()), againMs);
  }

  function show(body) {
    say(body.waits_for || "");
    list("#week-facts", [body.capacity_text, body.forecast_text]);
    list("#week-events", body.events.map((event) => event.text), "rheostat learn has found no change.");
    const known = body.start_ms !== null || body.forecast !== null;
    one("#week-charts").hidden = !known;
    shown = known ? body : null;
    if (known) drawAll(body);
  }

  function drawAll(body) {
    const times = timesOf(body);
    draw("week-in", loadChart(body, times, "in"), body);
    draw("week-out", loadChart(body, times, "out"), body);
    draw("week-latency", latencyChart(body, times), body);
  }

  function list(selector, texts, empty) {
    const items = (texts.length || !empty ? texts : [empty]).map((text) => {
      const item = document.createElement("li");
      page.write(item, text);
      return item;
    });
    one(selector).replaceChildren(...items);
  }

  /* -- data: all lines of a chart have the same times, in seconds ----------------------------------------------------------- */

  function timesOf(body) {
    const startS = (body.start_ms ?? body.now_ms) / 1000;
    const count = body.produce_p99_ms.length;
    const past = Array.from({ length: count }, (_, number) => startS + number * body.period_s);
    // The forecast takes at most as much room as the history.
    const aheadH = Math.max(FORECAST_H_MIN, (count * body.period_s) / HOUR_S);
    const firstS = Math.floor(body.now_ms / 1000 / HOUR_S) * HOUR_S;
    const ahead = body.forecast === null ? [] : Array.from({ length: Math.min(168, Math.ceil(aheadH)) }, (_, hour) => firstS + hour * HOUR_S);
    return { all: [...new Set([...past, ...ahead])].sort((a, b) => a - b), firstAheadS: firstS };
  }

  /* Returns the values at these times; null where a time is not one of the series. */
  function at(times, startMs, stepS, values, sinceS = 0) {
    return times.map((s) => {
      const number = (s - startMs / 1000) / stepS;
      return s >= sinceS && Number.isInteger(number) ? (values[number] ?? null) : null;
    });
  }

  function loadChart(body, { all, firstAheadS }, direction) {
    const past = (name) => inMB(at(all, body.start_ms ?? 0, body.period_s, body[`${name}_${direction}_bytes_per_s`]));
    const clients = past("client");
    const replication = past("replication");
    const nothing = all.map(() => null);
    let [forecast, low, high] = [nothing, nothing, nothing];
    if (body.forecast) {
      const { bytes_per_s: values, error_bytes_per_s: errors } = body.forecast[`client_${direction}`];
      const ahead = (numbers) => inMB(at(all, body.forecast.start_ms, body.forecast.step_s, numbers, firstAheadS));
      const error = ahead(errors);
      forecast = ahead(values);
      const beside = (sign) => forecast.map((value, number) => (value === null || error[number] === null ? null : Math.max(0, value + sign * error[number])));
      [low, high] = [beside(-1), beside(1)];
    }
    const highest = Math.max(0, ...clients, ...replication, ...high, ...forecast);
    const limits = [["capacity", body[`capacity_${direction}`]?.bytes_per_s], ["ceiling", body.rate_bytes_per_s_max]];
    // A limit far above the other lines would press them to the bottom, so the upper edge of the chart names it instead.
    const isFar = (bytesPerS) => bytesPerS / MB > 3 * highest;
    const level = (bytesPerS) => (bytesPerS == null || isFar(bytesPerS) ? nothing : all.map(() => bytesPerS / MB));
    return {
      data: [all, low, high, clients, replication, forecast, ...limits.map(([, value]) => level(value))],
      series: [{}, line(null, { ahead: true }), line(null, { ahead: true }), line("actual"), line("limit"), line("actual", { dash: [6, 4], ahead: true }), line("max-rate", { dash: [2, 4] }), line("max-rate", { dash: [9, 4] })],
      bands: [{ series: [2, 1], fill: () => `${charts.colour("actual")}33` }],
      label: "MB/s",
      above: limits.filter(([, value]) => value != null && isFar(value)).map(([name, value]) => `↑ ${name} ${units.rateText(value)}`).join("  "),
      said: `Bytes that broker ${body.broker} ${direction === "in" ? "received" : "sent"} in a week: ${[
        last("clients", clients, rate), last("replication", replication, rate), last("forecast at the end", forecast, rate),
        ...limits.map(([name, value]) => `${name} ${value == null ? "unknown" : units.rateText(value)}`),
      ].join(", ")}`,
    };
  }

  function latencyChart(body, { all }) {
    const p99 = at(all, body.start_ms ?? 0, body.period_s, body.produce_p99_ms);
    const now = body.latency_limit;
    const hourly = (name, constant) =>
      body.baseline ? at(all, body.baseline.start_ms, body.baseline.step_s, body.baseline[name]) : all.map(() => constant ?? null);
    const baseline = hourly("p99_ms", now?.baseline_ms);
    const objective = hourly("p99_ms_max", now?.p99_ms_max);
    return {
      data: [all, p99, baseline, objective],
      series: [{}, line("actual"), line("min-rate", { dash: [9, 3, 2, 3], ahead: true }), line("limit", { dash: [6, 4], ahead: true })],
      label: "ms",
      above: "",
      said: `Produce latency of broker ${body.broker} in a week: ${[last("p99", p99, milliseconds), last("without copies", baseline, milliseconds), last("objective", objective, milliseconds)].join(", ")}`,
    };
  }

  function last(name, values, text) {
    const value = values.findLast((each) => each !== null);
    return value === undefined ? `${name} unknown` : `${name} ${text(value)}`;
  }

  /* -- drawing ---------------------------------------------------------------------------------------------------------------- */

  /* A line with a value for each hour has gaps between its hours where the chart also has periods of ten minutes. */
  function line(name, { dash, ahead = false } = {}) {
    return { stroke: name === null ? "transparent" : () => charts.colour(name), width: name === null ? 0 : undefined, dash, points: { show: false }, spanGaps: ahead };
  }

  function draw(id, { data, series, bands, label, above, said }, body) {
    const place = one(`#${id}`);
    place.dataset.above = above;
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", said);
    drawn.get(id)?.destroy();
    const height = place.clientHeight;
    const day = (s) => new Date(s * 1000).toUTCString().slice(0, 7).replace(",", "");
    const clock = (s) => new Date(s * 1000).toISOString().slice(11, 16);
    const chart = new uPlot(
      {
        width: place.clientWidth,
        height,
        legend: { show: false },
        cursor: { show: false },
        tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "UTC"),
        scales: { y: { range: (self, low, high) => [0, Math.max(1, (high || 1) * 1.1)] } },
        axes: charts.axes(height, label, { incs: [600, 1800, HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S, 24 * HOUR_S, 48 * HOUR_S], values: (self, ticks) => ticks.map((s) => (s % (24 * HOUR_S) === 0 ? day(s) : clock(s))) }),
        series: charts.sized(series, height),
        bands,
        hooks: { drawClear: [(self) => shade(self, body)], draw: [(self) => mark(self, body)] },
      },
      data,
      place,
    );
    drawn.set(id, chart);
  }

  function shade(chart, body) {
    const { ctx, bbox } = chart;
    ctx.fillStyle = charts.colour("warn-ground");
    for (const copy of body.copies) {
      const [left, right] = [copy.start_ms, copy.end_ms].map((ms) => chart.valToPos(ms / 1000, "x", true));
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
    }
  }

  function mark(chart, body) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = charts.colour("bad");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const event of body.events) {
      const x = chart.valToPos(event.since_ms / 1000, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  function begin(given) {
    page = given;
    dialog().addEventListener("close", closed);
    addEventListener("hashchange", open);
    addEventListener("resize", () => shown && drawAll(shown));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((chart) => chart.redraw()));
    open();
  }

  addEventListener("rheostat-begin", (event) => begin(event.detail));
  return { data: (id) => drawn.get(id)?.data };
})();
