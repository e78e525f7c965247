/* The link to the Grafana dashboard of this view, with the cluster, the broker and the time that the view shows. */
"use strict";

const grafana = (() => {
  const AROUND_MS = 30 * 60 * 1000; // Before and after a decision.
  const DAY_MS = 24 * 3600 * 1000;

  let known = null; // The last status.

  function offer(status) {
    known = status;
    const { grafana_url: base, cluster } = status;
    const link = document.querySelector("#grafana");
    link.hidden = base === null;
    if (base === null) return;
    const week = location.hash.match(/^#week-([0-9]+)$/);
    const { board, atMs, broker: own } = link.dataset;
    const query = new URLSearchParams({ "var-cluster": cluster, from: "now-1h", to: "now" });
    const broker = own || week?.[1] || new URLSearchParams(location.search).get(location.pathname === "/brokers" ? "find" : "broker");
    if (/^[0-9]+$/.test(broker || "")) query.set("var-broker", broker);
    if (atMs) {
      query.set("from", String(Number(atMs) - AROUND_MS));
      query.set("to", String(Number(atMs) + AROUND_MS));
    } else if (week) query.set("from", String(Date.now() - 7 * DAY_MS));
    link.href = `${base.replace(/\/+$/, "")}/d/${week ? "rheostat-week" : board}?${query}`;
  }

  const again = () => known && offer(known);
  document.addEventListener("change", again); // After the form's own listener, which writes the filters into the address.
  addEventListener("hashchange", again);
  return { offer };
})();
