/* The page of a plan: the form that sorts and finds partitions, and turns their pages. The tuner sorts, as a plan may have 200,000. */
"use strict";

addEventListener("rheostat-begin", () => {
  const asked = document.querySelector("#partitions-asked");

  function load() {
    address.write();
    htmx.trigger("#partitions", "partitions-asked");
  }

  function turn(pages) {
    const { rows = "50", total = "0" } = document.querySelector("#partitions-shown")?.dataset || {};
    const last = Math.max(0, Math.ceil(Number(total) / Number(rows)) - 1) * Number(rows);
    asked.elements.offset.value = String(Math.max(0, Math.min(Number(asked.elements.offset.value) + pages * Number(rows), last)));
    load();
  }

  asked.addEventListener("change", () => {
    asked.elements.offset.value = "0";
    load();
  });
  for (const button of asked.querySelectorAll("[data-page]")) button.addEventListener("click", () => turn(Number(button.dataset.page)));
});
