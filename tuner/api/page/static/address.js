/* Keeps the filters of a view in its address, so that a link shows the same rows to each reader.

   A view has at most one form of filters. The names of its fields are the names in the address. */
"use strict";

const address = (() => {
  const form = () => document.querySelector("form.filters");
  let isScrolled = false;

  function read() {
    const given = new URLSearchParams(location.search);
    for (const field of form()?.elements || []) {
      if (!field.name || !given.has(field.name)) continue;
      if (field.type === "checkbox") field.checked = given.get(field.name) === field.value;
      else field.value = given.get(field.name);
    }
  }

  function write() {
    const asked = [...new FormData(form())].filter(([name, value]) => value !== "" && !(name === "offset" && value === "0"));
    const query = new URLSearchParams(asked).toString();
    history.replaceState(null, "", `${location.pathname}${query && `?${query}`}${location.hash}`);
  }

  /* The parts of a view come after the browser has looked for the place that the address names. */
  function scroll() {
    if (isScrolled || !location.hash) return;
    const place = document.getElementById(location.hash.slice(1));
    place?.scrollIntoView();
    isScrolled = place !== null;
  }

  function begin() {
    read();
    form()?.addEventListener("submit", (event) => event.preventDefault());
    form()?.addEventListener("change", write);
    document.body.addEventListener("htmx:afterSettle", scroll);
  }

  return { begin, write };
})();
