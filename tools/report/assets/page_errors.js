// What goes wrong on the page stands in the attribute data-errors of its root, where a test finds it.
"use strict";
const pageErrors = [];
function rememberError(text) {
  pageErrors.push(text);
  document.documentElement.dataset.errors = pageErrors.join("\n");
}
document.documentElement.dataset.errors = "";
window.addEventListener("error", (event) => rememberError(`${event.message} (line ${event.lineno})`));
window.addEventListener("securitypolicyviolation", (event) => rememberError(`refused: ${event.blockedURI}`));
const consoleError = console.error;
console.error = (...values) => {
  rememberError(values.map(String).join(" "));
  consoleError(...values);
};
