/* Copies the command beside a button. Without access to the clipboard, as over plain HTTP, it selects the command instead. */
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const command = document.getElementById(button.dataset.copy);
  const said = document.querySelector("#copied") || document.querySelector("#said");
  try {
    await navigator.clipboard.writeText(command.textContent);
    said.textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(command);
    said.textContent = "Selected: copy it with the keyboard.";
  }
});
