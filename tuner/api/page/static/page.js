/* Keeps the page current: listens to the tuner's events, and requests the parts again after each event.

   The page keeps the token in sessionStorage and sends it in a header. Unlike a cookie, no browser sends it by itself, so another
   site cannot give an order through this page. The token is gone when the tab closes. The content policy lets no other script run. */
"use strict";

const rheostat = (() => {
  const KEY = "rheostat-token";
  const AGAIN_MS = 10000; // A standby has no cycles, so it sends no events.
  const GATHER_MS = 250; // Events within this time lead to one update.
  const one = (selector) => document.querySelector(selector);
  const title = document.title; // The view and the product.
  let status = null;
  let timer = null;
  let asking = false;
  let listening = false;
  let stream = null;

  const token = () => sessionStorage.getItem(KEY);
  const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

  async function ask(path, options = {}) {
    const answer = await fetch(path, { ...options, headers: { ...headers(), ...(options.headers || {}) }, cache: "no-store" });
    if (answer.status === 401) wantToken(token() ? await refusal(answer.clone()) : "");
    return answer;
  }

  async function refusal(answer) {
    const why = await answer.json().then((body) => body.detail, () => "no reason was given");
    return `The tuner refuses this token: ${why}.`;
  }

  function wantToken(why) {
    const dialog = one("#token");
    dialog.querySelector(".wrong").textContent = why;
    if (!dialog.open) dialog.showModal();
  }

  /* Text between backticks becomes a code element; no text is ever read as HTML. */
  function write(place, text) {
    const parts = text.split("`");
    const unpaired = parts.length % 2 === 0 ? ["`" + parts.pop()] : [];
    const made = parts.map((part, number) => (number % 2 ? Object.assign(document.createElement("code"), { textContent: part }) : part));
    place.replaceChildren(...made, ...unpaired);
  }

  function say(text) {
    write(one("#said"), text);
  }

  function linked(text) {
    if (one("#link").textContent !== text) one("#link").textContent = text;
  }

  /* -- updates ------------------------------------------------------------------------------------------------------------ */

  function news(afterMs = GATHER_MS) {
    clearTimeout(timer);
    timer = setTimeout(refresh, afterMs);
  }

  async function refresh() {
    clearTimeout(timer);
    timer = setTimeout(refresh, AGAIN_MS);
    if (asking || document.hidden) return;
    asking = true;
    try {
      const answer = await ask("/api/v1/status");
      if (answer.ok) {
        status = await answer.json();
        one("#cluster").textContent = status.cluster;
        document.title = `${status.moving_partitions ? `${status.moving_partitions} moving · ` : ""}${status.cluster} · ${title}`;
        offerClusters(status.other_clusters);
        grafana.offer(status);
        one("#version").textContent = `rheostat ${status.version}`;
        document.body.dataset.role = status.role;
        one("#who").hidden = !token(); // A tuner that answers without a token needs none.
        const may = status.role === "operate";
        for (const button of document.querySelectorAll("header [data-order]")) {
          const order = button.dataset.order;
          button.hidden = !may || (order === "pause" && status.paused !== null) || (order === "resume" && status.paused === null);
        }
        orders.acknowledged(status);
        document.body.dispatchEvent(new Event("rheostat-news"));
      }
    } catch {
      linked("The tuner does not answer. The page tries again.");
    } finally {
      asking = false;
    }
  }

  /* Links to the pages of the other clusters. An address that only the tuner's machine reaches gets the host of this page. */
  function offerClusters(others) {
    const nav = one("#clusters");
    if (nav.childElementCount === others.length) return; // They stay the same while the tuner runs.
    const links = others.map(({ cluster, page }) => {
      const address = new URL(page);
      if (["127.0.0.1", "[::1]", "localhost"].includes(address.hostname)) address.hostname = location.hostname;
      return Object.assign(document.createElement("a"), { href: address.href, textContent: cluster });
    });
    nav.replaceChildren(...links);
    nav.hidden = links.length === 0;
  }

  async function listen() {
    stream?.abort(); // The loop continues with the new token.
    if (listening) return;
    listening = true;
    for (let waitMs = 1000; ; waitMs = Math.min(15000, waitMs * 2)) {
      // A browser opens at most six connections to one host, for all tabs. A hidden tab keeps none, so that orders get through.
      while (document.hidden) await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
      try {
        stream = new AbortController();
        const answer = await ask("/api/v1/events", { headers: { Accept: "text/event-stream" }, signal: stream.signal });
        if (answer.status === 401) return void (listening = false); // A new token starts the loop again.
        if (answer.ok) {
          linked("Live");
          waitMs = 1000;
          news(0);
          await read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
        } else linked(answer.status === 503 ? "Too many pages are open. This one updates every 10 s." : "The tuner sends no events. The page updates every 10 s.");
      } catch {
        /* The tuner or the network does not answer. */
      }
      if (one("#link").textContent === "Live") linked("The tuner does not answer. The page tries again.");
      await new Promise((done) => setTimeout(done, waitMs));
    }
  }

  async function read(reader) {
    for (let rest = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      if (parts.some((part) => /^event: /m.test(part))) news();
    }
  }

  /* -- controls ------------------------------------------------------------------------------------------- */

  function begin() {
    document.body.addEventListener("htmx:configRequest", (event) => Object.assign(event.detail.headers, headers()));
    document.body.addEventListener("htmx:responseError", (event) => {
      if (event.detail.xhr.status === 401) wantToken("");
    });
    document.addEventListener("visibilitychange", () => (document.hidden ? stream?.abort() : news(0)));
    one("#who").addEventListener("click", () => wantToken(""));
    one("#token form").addEventListener("submit", (event) => {
      const field = event.target.elements.token;
      sessionStorage.setItem(KEY, field.value.trim());
      field.value = "";
      listen();
    });
    one("#token [value=forget]").addEventListener("click", () => {
      sessionStorage.removeItem(KEY);
      location.reload();
    });
    address.begin();
    // The scripts of a view begin once its filters are those of the address.
    dispatchEvent(new CustomEvent("rheostat-begin", { detail: { ask, write, say } }));
    orders.begin({ ask, say, news, write, status: () => status });
    listen();
  }

  document.addEventListener("DOMContentLoaded", begin);
  return { ask };
})();
