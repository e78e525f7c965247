/* The view of the brokers: the form that finds brokers and turns pages, and the charts after each update. */
"use strict";

addEventListener("rheostat-begin", ({ detail: { ask } }) => {
  const asked = document.querySelector("#brokers-asked");

  function load() {
    address.write();
    htmx.trigger("#brokers", "brokers-asked");
  }

  function turn(pages) {
    const { cards, last } = document.querySelector("#brokers-shown")?.dataset || { cards: "0", last: "0" };
    const within = (offset) => Math.max(0, Math.min(offset, Number(last)));
    asked.elements.offset.value = String(within(within(Number(asked.elements.offset.value)) + cards * pages));
    asked.elements.find.value = "";
    load();
  }

  asked.elements.find.addEventListener("change", () => {
    asked.elements.offset.value = "0";
    load();
  });
  for (const button of asked.querySelectorAll("[data-page]")) button.addEventListener("click", () => turn(Number(button.dataset.page)));
  document.body.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.target.id === "brokers") charts.draw(ask);
  });
});
