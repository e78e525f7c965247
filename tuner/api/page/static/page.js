/* Keeps the page new: listens to the tuner's events, and asks for the parts again when one comes.

   The token is kept in sessionStorage and sent in a header. No browser sends it by itself, so no other site can make this one
   give an order; it is gone with the tab; and what it is safe from a cookie would not be: the policy lets no other script run here. */
"use strict";

const rheostat = (() => {
  const KEY = "rheostat-token";
  const AGAIN_MS = 10000; // A tuner that stands by has no cycles to tell of.
  const GATHER_MS = 250; // Many events at once are one piece of news.
  const one = (selector) => document.querySelector(selector);
  let status = null;
  let timer = null;
  let asking = false;
  let listening = false;
  let stream = null;

  const token = () => sessionStorage.getItem(KEY);
  const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

  async function ask(path, options = {}) {
    const answer = await fetch(path, { ...options, headers: { ...headers(), ...(options.headers || {}) }, cache: "no-store" });
    if (answer.status === 401) wantToken(token() ? "This token is not known here." : "");
    return answer;
  }

  function wantToken(why) {
    const dialog = one("#token");
    dialog.querySelector(".wrong").textContent = why;
    if (!dialog.open) dialog.showModal();
  }

  /* Sentences name commands between backticks; each becomes an element, so that nothing in them is ever HTML. */
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

  /* -- news ------------------------------------------------------------------------------------------------------------ */

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
        document.title = `${status.moving_partitions ? `${status.moving_partitions} moving · ` : ""}${status.cluster} · rheostat`;
        document.body.dataset.role = status.role;
        one("#who").hidden = !token(); // Who was answered without a token needs none.
        const may = status.role === "operate";
        for (const button of document.querySelectorAll("header [data-order]")) {
          const order = button.dataset.order;
          button.hidden = !may || (order === "pause" && status.paused !== null) || (order === "resume" && status.paused === null);
        }
        orders.acknowledged(status);
        document.body.dispatchEvent(new Event("rheostat-news"));
      }
    } catch {
      linked("The tuner does not answer; trying again.");
    } finally {
      asking = false;
    }
  }

  async function listen() {
    stream?.abort(); // Another token: the same loop goes on with it.
    if (listening) return;
    listening = true;
    for (let waitMs = 1000; ; waitMs = Math.min(15000, waitMs * 2)) {
      // A browser opens six connections to one place, for all tabs: one that nobody looks at keeps none, or no order gets out.
      while (document.hidden) await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
      try {
        stream = new AbortController();
        const answer = await ask("/api/v1/events", { headers: { Accept: "text/event-stream" }, signal: stream.signal });
        if (answer.status === 401) return void (listening = false); // Whoever gives a token begins anew.
        if (answer.ok) {
          linked("Live");
          waitMs = 1000;
          news(0);
          await read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
        } else linked(answer.status === 503 ? "Too many pages are open; this one looks every 10 s." : "No events; this page looks every 10 s.");
      } catch {
        /* The tuner has gone, or the network has: the same to us. */
      }
      if (one("#link").textContent === "Live") linked("The tuner does not answer; trying again.");
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

  /* -- the page's own controls ------------------------------------------------------------------------------------------- */

  function begin() {
    document.body.addEventListener("htmx:configRequest", (event) => Object.assign(event.detail.headers, headers()));
    document.body.addEventListener("htmx:responseError", (event) => {
      if (event.detail.xhr.status === 401) wantToken("");
    });
    document.body.addEventListener("htmx:afterSettle", (event) => {
      if (event.detail.target.id === "brokers") charts.draw(ask);
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
    const asked = one("#brokers-asked");
    const brokers = () => htmx.trigger("#brokers", "brokers-asked");
    asked.addEventListener("submit", (event) => event.preventDefault());
    one("#decisions-asked").addEventListener("submit", (event) => event.preventDefault());
    asked.elements.find.addEventListener("change", () => {
      asked.elements.offset.value = "0";
      brokers();
    });
    for (const button of asked.querySelectorAll("[data-page]")) {
      button.addEventListener("click", () => {
        const { cards, last } = one("#brokers-shown")?.dataset || { cards: "0", last: "0" };
        const within = (offset) => Math.max(0, Math.min(offset, Number(last)));
        asked.elements.offset.value = String(within(within(Number(asked.elements.offset.value)) + cards * button.dataset.page));
        asked.elements.find.value = "";
        brokers();
      });
    }
    orders.begin({ ask, say, news, write, status: () => status });
    listen();
  }

  document.addEventListener("DOMContentLoaded", begin);
  return { ask };
})();
