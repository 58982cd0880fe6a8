// Draws every figure of the page, and notes on each what was drawn: data-drawn, and data-marks with their number.
"use strict";
{
  const mostRows = 2000; // of a table beside a figure

  const element = (name, text, parent) => {
    const added = parent.appendChild(document.createElement(name));
    added.textContent = text;
    return added;
  };

  // The values that a figure shows, for readers who cannot see it; made when they are asked for.
  const addValues = (parent, figure) => {
    const series = figure.series.filter(({ kind }) => kind !== "heat");
    if (series.length === 0) return;
    const details = element("details", "", parent);
    element("summary", "values", details);
    details.addEventListener("toggle", () => {
      if (details.querySelector("table")) return;
      const frame = element("div", "", details);
      frame.className = "table";
      frame.tabIndex = 0;
      const table = element("table", "", frame);
      const head = element("tr", "", table.createTHead());
      for (const title of ["series", figure.x.label, figure.y.label, "from", "to", "mark"]) element("th", title, head);
      const text = (axis, value) => (!isNumber(value) ? "" : axis.categories ? axis.categories[value] : String(value));
      const rows = series.flatMap((one) => one.x.map((x, i) => [one.name, text(figure.x, x), text(figure.y, (one.y || [])[i]),
        text(figure.y, (one.low || [])[i]), text(figure.y, (one.high || [])[i]), (one.labels || [])[i] || ""]));
      const body = table.createTBody();
      for (const row of rows.slice(0, mostRows)) {
        const line = element("tr", "", body);
        for (const cell of row) element("td", cell, line);
      }
      if (rows.length > mostRows) element("p", `${rows.length - mostRows} further values are left out.`, details);
    });
  };

  // Rows that others sum up are hidden until asked for, but in print. Without this script they are shown.
  for (const body of document.querySelectorAll("tbody.folded")) {
    const cell = body.previousElementSibling.lastElementChild.firstElementChild;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "unfold";
    button.append(...cell.childNodes);
    cell.append(button);
    const show = (shown) => {
      body.classList.toggle("shown", shown);
      button.setAttribute("aria-expanded", String(shown));
    };
    show(false);
    button.addEventListener("click", () => show(!body.classList.contains("shown")));
  }
  document.documentElement.classList.add("scripted");

  const figures = JSON.parse(document.getElementById("figures").textContent);
  let drawn = 0;
  for (const holder of document.querySelectorAll("figure[data-figure]")) {
    try {
      const figure = figures[Number(holder.dataset.figure)];
      const marks = drawFigure(holder.querySelector(".plot"), figure);
      addValues(holder, figure);
      holder.dataset.marks = marks;
      holder.dataset.drawn = "1";
      ++drawn;
    } catch (error) {
      console.error(`figure ${holder.dataset.figure}: ${error.stack || error}`);
    }
  }
  const root = document.documentElement;
  root.dataset.figures = figures.length;
  root.dataset.drawn = drawn;
  root.dataset.height = root.scrollHeight;
  root.dataset.overflow = root.scrollWidth > root.clientWidth ? "1" : "0";
}
