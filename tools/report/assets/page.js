// Draws every figure of the page, and notes on each what was drawn: data-drawn, and data-marks with their number.
"use strict";
{
  const figures = JSON.parse(document.getElementById("figures").textContent);
  let drawn = 0;
  for (const element of document.querySelectorAll("figure[data-figure]")) {
    try {
      const marks = drawFigure(element.querySelector(".plot"), figures[Number(element.dataset.figure)]);
      element.dataset.marks = marks;
      element.dataset.drawn = "1";
      ++drawn;
    } catch (error) {
      console.error(`figure ${element.dataset.figure}: ${error.stack || error}`);
    }
  }
  const root = document.documentElement;
  root.dataset.figures = figures.length;
  root.dataset.drawn = drawn;
  root.dataset.height = root.scrollHeight;
  root.dataset.overflow = root.scrollWidth > root.clientWidth ? "1" : "0";
}
