/* The fields of an override: a slider from the minimum rate to the ceiling, and how long the copies of the broker take at this rate.

   A side drains its throttle minus W, the steady-state replication, so B remaining bytes take B ÷ (rate − W) seconds. */
"use strict";

const override = (() => {
  const MB = 1000000;
  const STEPS = 1000; // Of the slider. Each step multiplies the rate by the same factor.
  const SECONDS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let page = null;
  let sides = []; // Of the broker in the field, once the tuner has told them.
  let asked = null; // The broker that was asked for last.
  const form = () => document.querySelector("#order form");
  const fields = () => form().elements;

  const limits = () => {
    const status = page.status();
    const max = status ? (status.schedule?.highest_ceiling_bytes_per_s ?? status.rate_bytes_per_s_max) : 1000 * MB;
    return { min: Math.min(status?.rate_bytes_per_s_min ?? MB, max), max };
  };

  /* Two units at most, as the tuner writes times: "2 h 5 min", "40 s". */
  function spanText(seconds) {
    let rest = Math.max(1, Math.round(seconds));
    const parts = SECONDS.map(([unit, size]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return [unit, count];
    });
    const first = parts.findIndex(([, count]) => count > 0);
    return parts.slice(first, first + 2).filter(([, count]) => count > 0).map(([unit, count]) => `${count} ${unit}`).join(" ");
  }

  const chosen = () => sides.filter(({ side }) => !fields().side.value || side === fields().side.value);

  function etaText() {
    const broker = fields().broker.value;
    const rate = Number(fields().rate.value) * MB;
    if (!broker || !(rate > 0)) return "";
    if (asked !== broker || !sides.length) return "The tuner has no measurements of this broker's copies.";
    const copying = chosen().filter((side) => side.remaining_bytes > 0);
    if (!copying.length) return "This broker copies nothing now, so the rate has no effect yet.";
    const stuck = copying.find((side) => rate <= (side.steady_state_bytes_per_s ?? 0));
    if (stuck) return `At this rate the copies of the ${stuck.side} side never end: the replication of new writes alone uses ${(stuck.steady_state_bytes_per_s / MB).toFixed(1)} MB/s.`;
    const slowest = Math.max(...copying.map((side) => side.remaining_bytes / (rate - (side.steady_state_bytes_per_s ?? 0))));
    return `At this rate the copies of broker ${broker} take about ${spanText(slowest)}, if no other broker is slower.`;
  }

  /* What the order does, in words: the confirmation repeats the operator's own values beside the present ones. */
  function orderText() {
    const rate = Number(fields().rate.value);
    const minutes = Number(fields().minutes.value);
    if (!fields().broker.value || !(rate > 0) || !(minutes > 0)) return "";
    const present = chosen().map(({ side, current_rate_bytes_per_s: now }) => `${side} ${now === null ? "none" : `${Number((now / MB).toPrecision(3))} MB/s`}`);
    const which = fields().side.value ? `the ${fields().side.value} throttle` : "both throttles";
    return `You set ${which} of broker ${fields().broker.value} to ${rate} MB/s for ${spanText(60 * minutes)}.${present.length ? ` Now: ${present.join(", ")}.` : ""} `;
  }

  function write() {
    const eta = document.querySelector("#override-eta");
    const text = orderText() + etaText();
    if (eta.textContent !== text) eta.textContent = text;
    fields().scale.setAttribute("aria-valuetext", `${fields().rate.value || "no"} MB/s. ${text}`);
  }

  function rateOfScale() {
    const { min, max } = limits();
    const rate = min * (max / min) ** (Number(fields().scale.value) / STEPS);
    fields().rate.value = String(Number((rate / MB).toPrecision(3)));
    if (Number(fields().rate.value) > max / MB) fields().rate.value = String(max / MB);
  }

  function scaleOfRate() {
    const { min, max } = limits();
    const rate = Math.min(max, Math.max(min, Number(fields().rate.value) * MB || min));
    fields().scale.value = String(max > min ? Math.round((STEPS * Math.log(rate / min)) / Math.log(max / min)) : STEPS);
  }

  async function load() {
    const broker = fields().broker.value;
    if (broker === asked) return write();
    asked = broker;
    sides = [];
    write();
    if (!/^[0-9]+$/.test(broker)) return;
    const answer = await page.ask(`/api/v1/brokers/${broker}`).catch(() => null);
    const body = answer?.ok ? await answer.json() : { sides: [], remaining_bytes: {} };
    if (broker !== asked) return; // Another broker was entered meanwhile.
    sides = body.sides.map((side) => ({ ...side, remaining_bytes: body.remaining_bytes[side.side] }));
    if (!fields().rate.value) suggest();
    write();
  }

  /* Begins with the present throttle of the side that copies. */
  function suggest() {
    const copying = sides.filter((side) => side.remaining_bytes > 0);
    const present = (copying.length ? copying : sides).map((side) => side.current_rate_bytes_per_s).filter((rate) => rate !== null);
    fields().rate.value = String(Number(((present.length ? Math.min(...present) : limits().min) / MB).toPrecision(3)));
    scaleOfRate();
    form().dispatchEvent(new Event("input", { bubbles: true })); // The command beside the button shows the rate, too.
  }

  function open(broker) {
    fields().broker.value = broker;
    fields().rate.max = String(limits().max / MB);
    fields().rate.value = "";
    scaleOfRate();
    asked = null; // The remaining bytes have changed since the dialog was last open.
    load();
  }

  function begin(given) {
    page = given;
    form().addEventListener("input", ({ target: { name } }) => {
      if (name === "scale") rateOfScale();
      if (name === "rate") scaleOfRate();
      if (["scale", "rate", "side", "minutes"].includes(name)) write();
    });
    form().elements.broker.addEventListener("change", load);
  }

  return { begin, open };
})();
