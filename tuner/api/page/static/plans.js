/* The preview of a plan, and the plan that its button starts: the text that was previewed, whatever the field says by then. */
"use strict";

const plans = (() => {
  let page = null;
  let previewed = null;
  const form = () => document.querySelector("#plan-asked");
  const preview = () => document.querySelector("#preview");

  /* Returns the next time at which clocks show this time of day in UTC. */
  function nextTime(text) {
    const [hour, minute] = text.split(":").map(Number);
    const at = new Date();
    at.setUTCHours(hour, minute, 0, 0);
    if (at.getTime() < Date.now()) at.setUTCDate(at.getUTCDate() + 1);
    return at.getTime();
  }

  function asked() {
    const { plan, start, at } = form().elements;
    return {
      plan: plan.value,
      start_ms: start.value === "at" ? nextTime(at.value || "00:00") : null,
      at_best: start.value === "best",
    };
  }

  async function show() {
    const body = asked();
    const button = form().querySelector("[type=submit]");
    button.disabled = true;
    page.say("The tuner reads the cluster and checks the plan.");
    try {
      const answer = await page.ask("/page/plan-preview", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      const said = answer.ok ? await answer.text() : (await answer.json()).detail;
      if (!answer.ok) return page.say(`The plan was not checked: ${said}. What you have entered stays.`);
      previewed = body;
      htmx.swap(preview(), said, { swapStyle: htmx.config.defaultSwapStyle });
      page.say("");
      preview().focus();
    } catch {
      page.say("The tuner does not answer. Try again; what you have entered stays.");
    } finally {
      button.disabled = false;
    }
  }

  function begin(given) {
    page = given;
    if (!form()) return;
    const { start, at, file, plan } = form().elements;
    const choose = () => (at.parentElement.hidden = start.value !== "at");
    start.addEventListener("change", choose);
    choose();
    file.addEventListener("change", async () => {
      if (file.files.length) plan.value = await file.files[0].text();
    });
    form().addEventListener("submit", (event) => {
      event.preventDefault();
      show();
    });
  }

  return { begin, previewed: () => previewed };
})();
