/* Orders: asked for once more before they are given, and followed until the tuner has acknowledged them. */
"use strict";

const orders = (() => {
  const MB = 1000000;
  const KINDS = {
    pause: ["Pause", "Nothing is changed any more, neither up nor down, until somebody resumes. What stands stays as it is, also at the end of a move.", false],
    resume: ["Resume", "It takes up its work again, also what it had left alone because somebody else had changed it.", false],
    release: ["Release", "Everything that rheostat set is taken back now, overrides end, and nothing is changed until somebody resumes.", true],
    override: ["Override", "The throttle of this broker stands at this rate while something moves there, and is tuned again after the time given.", false],
    end: ["End the override", "The throttles of this broker are tuned again from the next cycle on.", false],
  };
  let page = null;
  let kind = null;
  let broker = null;
  let opened = 0; // How many times the dialog was opened: an answer may come when it is open for something else.
  let waits = null; // For what was given last to be acknowledged.
  const dialog = () => document.querySelector("#order");
  const fields = () => dialog().querySelector("form").elements;

  function open(button) {
    kind = button.dataset.order;
    broker = button.dataset.broker || "";
    const [title, what, dangerous] = KINDS[kind];
    const confirm = dialog().querySelector("button.main");
    dialog().querySelector("h2").textContent = `${title}${kind === "end" ? ` of broker ${broker}` : ""}?`;
    document.querySelector("#order-what").textContent = what;
    confirm.textContent = title;
    confirm.classList.toggle("danger", dangerous);
    const overrides = kind === "override";
    document.querySelector("#override").hidden = !overrides;
    for (const name of ["broker", "rate", "minutes"]) fields()[name].required = overrides;
    if (overrides) {
      const status = page.status();
      fields().broker.value = broker;
      fields().rate.max = status ? String(status.rate_bytes_per_s_max / MB) : "";
    }
    wrong("");
    opened += 1;
    dialog().showModal();
  }

  function wrong(text) {
    page.write(dialog().querySelector(".wrong"), text);
  }

  function request() {
    if (kind === "end") return [`/api/v1/override/${broker}`, { method: "DELETE" }];
    const body = {};
    if (kind === "override") {
      body.broker = Number(fields().broker.value);
      body.rate_bytes_per_s = Math.round(Number(fields().rate.value) * MB);
      body.for_s = Number(fields().minutes.value) * 60;
      if (fields().side.value) body.side = fields().side.value;
    }
    return [`/api/v1/${kind}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }];
  }

  async function give() {
    const [title] = KINDS[kind];
    const mine = opened;
    const refused = (text) => (mine === opened && dialog().open ? wrong(text) : page.say(`${title}: ${text}`));
    const confirm = dialog().querySelector("button.main");
    confirm.disabled = true;
    try {
      const answer = await page.ask(...request());
      const said = await answer.json();
      if (!answer.ok) return refused(said.detail);
      waits = { title, atMs: said.orders_at_ms };
      page.say(`${title}: on record; the tuner heeds it within a cycle.`);
      if (mine === opened) dialog().close();
      page.news(0);
    } catch {
      refused("The tuner does not answer, so it is not known whether the order is on record.");
    } finally {
      confirm.disabled = false;
    }
  }

  function acknowledged(status) {
    if (waits === null || status.orders_acknowledged_at_ms < waits.atMs) return;
    page.say(`${waits.title}: acknowledged.`);
    waits = null;
  }

  function begin(given) {
    page = given;
    // Buttons come and go with the parts of the page.
    document.body.addEventListener("click", (event) => {
      const button = event.target.closest("[data-order]");
      if (button) open(button);
    });
    dialog().querySelector("[value=cancel]").addEventListener("click", () => dialog().close());
    dialog().querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      give();
    });
  }

  return { begin, acknowledged };
})();
