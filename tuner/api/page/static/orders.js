/* Operator orders: the operator confirms each one, and the page waits until the tuner has acknowledged it. */
"use strict";

const orders = (() => {
  const MB = 1000000;
  const KINDS = {
    pause: ["Pause", "The tuner changes nothing until an operator resumes it. Throttles keep their current rates, even after a move has ended.", false],
    resume: ["Resume", "The tuner acts again. It also controls the throttles again that another tool or an operator has changed.", false],
    release: ["Release", "The tuner restores all settings that it manages, and ends all overrides. Then it changes nothing until an operator resumes it.", true],
    override: ["Override", "The tuner keeps this rate while partitions move through the broker. After the given time the tuner controls the throttle again.", false],
    plan: ["Start the plan", "", false],
    end: ["End the override", "The tuner controls the throttles of this broker again from its next cycle on.", false],
  };
  let page = null;
  let kind = null;
  let broker = null;
  let opened = 0; // Number of openings: a response may arrive when the dialog is open for another order.
  let given = null; // The button that opened the dialog.
  let pending = null; // The last order, until the tuner acknowledges it.
  const dialog = () => document.querySelector("#order");
  const fields = () => dialog().querySelector("form").elements;

  function open(button) {
    kind = button.dataset.order;
    given = button;
    broker = button.dataset.broker || "";
    const [title, what, dangerous] = KINDS[kind];
    const confirm = dialog().querySelector("button.main");
    dialog().querySelector("h2").textContent = `${title}${kind === "end" ? ` of broker ${broker}` : ""}?`;
    document.querySelector("#order-what").textContent = button.dataset.words || what;
    confirm.textContent = title;
    confirm.classList.toggle("danger", dangerous);
    const overrides = kind === "override";
    document.querySelector("#override").hidden = !overrides;
    for (const name of ["broker", "rate", "minutes"]) fields()[name].required = overrides;
    if (overrides) override.open(broker);
    wrong("");
    command();
    opened += 1;
    dialog().showModal();
  }

  /* Shows the command that gives the same order. */
  function command() {
    const { other_clusters: others = [], cluster } = page.status() || {};
    const where = others.length ? ` --cluster ${/^[A-Za-z0-9._-]+$/.test(cluster) ? cluster : `'${cluster.replaceAll("'", "'\\''")}'`}` : "";
    const side = fields().side.value ? ` --side ${fields().side.value}` : "";
    const number = fields().broker.value || "BROKER";
    const arguments_ = {
      override: `override --broker ${number}${side} --throttle ${fields().rate.value || "RATE"}MB/s --for ${fields().minutes.value || "30"}m`,
      end: `override --broker ${broker} --clear`,
    };
    document.querySelector("#order-command").textContent = given.dataset.command || `rheostat ${arguments_[kind] || kind}${where}`;
  }

  function wrong(text) {
    page.write(dialog().querySelector(".wrong"), text);
  }

  function request() {
    if (kind === "end") return [`/api/v1/override/${broker}`, { method: "DELETE" }];
    if (kind === "plan") return ["/api/v1/plans", posted(plans.previewed())];
    const body = {};
    if (kind === "override") {
      body.broker = Number(fields().broker.value);
      body.rate_bytes_per_s = Math.round(Number(fields().rate.value) * MB);
      body.for_s = Number(fields().minutes.value) * 60;
      if (fields().side.value) body.side = fields().side.value;
    }
    return [`/api/v1/${kind}`, posted(body)];
  }

  const posted = (body) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

  async function give() {
    const [title] = KINDS[kind];
    const mine = opened;
    const refused = (text) => (mine === opened && dialog().open ? wrong(text) : page.say(`${title}: ${text}`));
    const confirm = dialog().querySelector("button.main");
    confirm.disabled = true;
    try {
      const answer = await page.ask(...request());
      const said = await answer.json();
      if (answer.status === 401) return refused(`The tuner refuses this token: ${said.detail}. Enter another one, then press ${title} again. Your entries stay here.`);
      if (!answer.ok) return refused(said.detail);
      if (kind === "plan") page.say(said.text);
      else {
        pending = { title, atMs: said.orders_at_ms };
        page.say(`${title}: recorded. The tuner acknowledges it within a cycle.`);
      }
      if (mine === opened) dialog().close();
      page.news(0);
    } catch {
      refused("The tuner does not answer, so the page cannot tell whether the order is recorded. Look at the operator orders above, then try again.");
    } finally {
      confirm.disabled = false;
    }
  }

  function acknowledged(status) {
    if (pending === null || status.orders_acknowledged_at_ms < pending.atMs) return;
    page.say(`${pending.title}: acknowledged.`);
    pending = null;
  }

  function begin(tools) {
    page = tools;
    override.begin(tools);
    plans.begin(tools);
    dialog().addEventListener("input", command);
    // The parts of the page replace their buttons.
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
