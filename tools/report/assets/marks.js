// The marks of a series. Each function appends them to `group` and returns how many there are.
"use strict";

const symbols = [d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolCross, d3.symbolStar,
  d3.symbolWye, d3.symbolCircle];

const dashes = ["none", "7 3", "2 3", "9 3 2 3", "5 2", "1 2", "none", "12 4"];

function symbolPath(colour, size) {
  return d3.symbol().type(symbols[colour % symbols.length]).size(size)();
}

function hover(selection, series) {
  if (series.labels) selection.append("title").text((i) => series.labels[i] || "");
}

// Positions in `series` that have a place in the plot.
function placed(series, scales, keys) {
  const count = Math.max(...keys.map((key) => (series[key] || []).length));
  return d3.range(count).filter((i) => keys.every((key) => {
    const value = (series[key] || [])[i];
    return isNumber(value) && Number.isFinite(scales[key === "x" ? "x" : "y"](value));
  }));
}

const drawMarks = {
  line(group, series, scales) {
    return drawLine(group, series, scales, d3.curveLinear);
  },

  steps(group, series, scales) {
    return drawLine(group, series, scales, d3.curveStepAfter);
  },

  points(group, series, scales) {
    const at = placed(series, scales, ["x", "y"]);
    if (series.low && series.high) {
      group.selectAll("line").data(at.filter((i) => isNumber(series.low[i]) && isNumber(series.high[i]))).enter()
        .append("line").attr("class", "whisker")
        .attr("x1", (i) => scales.x(series.x[i])).attr("x2", (i) => scales.x(series.x[i]))
        .attr("y1", (i) => scales.y(series.low[i])).attr("y2", (i) => scales.y(series.high[i]));
    }
    const points = group.selectAll("path").data(at).enter().append("path").attr("class", "point")
      .attr("d", symbolPath(series.colour, at.length > 150 ? 22 : 46))
      .attr("transform", (i) => `translate(${scales.x(series.x[i])},${scales.y(series.y[i])})`);
    hover(points, series);
    return at.length;
  },

  bars(group, series, scales) {
    const at = placed(series, scales, ["x", "y"]);
    const width = scales.x.bandwidth ? Math.min(scales.x.bandwidth, 64) : Math.max(1, scales.width / (1.3 * Math.max(1, at.length)));
    const floor = (i) => (series.low ? scales.y(series.low[i]) : scales.height);
    const bars = group.selectAll("rect").data(at).enter().append("rect").attr("class", "bar")
      .attr("x", (i) => scales.x(series.x[i]) - width / 2).attr("width", width)
      .attr("y", (i) => Math.min(floor(i), scales.y(series.y[i])))
      .attr("height", (i) => Math.max(0.5, Math.abs(floor(i) - scales.y(series.y[i]))));
    hover(bars, series);
    return at.length;
  },

  band(group, series, scales) {
    const at = placed(series, scales, ["x", "low", "high"]);
    const area = d3.area().x((i) => scales.x(series.x[i])).y0((i) => scales.y(series.low[i]))
      .y1((i) => scales.y(series.high[i]));
    group.append("path").attr("class", "band").attr("d", area(at));
    return at.length;
  },

  cells(group, series, scales) {
    const at = placed(series, scales, ["x", "y"]);
    const width = scales.x.step * 0.96;
    const height = scales.y.step * 0.96;
    const cells = group.selectAll("g").data(at).enter().append("g")
      .attr("transform", (i) => `translate(${scales.x(series.x[i])},${scales.y(series.y[i])})`);
    cells.append("rect").attr("class", "cell").attr("x", -width / 2).attr("y", -height / 2)
      .attr("width", width).attr("height", height);
    cells.append("text").attr("class", "in-cell").attr("dy", "0.35em").text((i) => (series.labels || [])[i] || "");
    return at.length;
  },

  tiles(group, series, scales) {
    const at = placed(series, scales, ["x", "y"]);
    const [width, height] = [scales.x.step, scales.y.step];
    hover(group.selectAll("rect").data(at).enter().append("rect").attr("class", "tile")
      .attr("x", (i) => scales.x(series.x[i]) - width / 2).attr("y", (i) => scales.y(series.y[i]) - height / 2)
      .attr("width", width).attr("height", height).attr("fill", (i) => d3.interpolateCividis(series.shades[i])), series);
    return at.length;
  },

  // One pixel a value, so that a hundred thousand of them are one element.
  heat(group, series, scales) {
    const shades = series.heat.match(/../g).map((digits) => parseInt(digits, 16));
    const rows = Math.round(shades.length / series.columns);
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [series.columns, rows];
    const context = canvas.getContext("2d");
    const image = context.createImageData(series.columns, rows);
    shades.forEach((shade, i) => {
      const { r, g, b } = d3.rgb(d3.interpolateCividis(shade / 255));
      image.data.set([r, g, b, 255], 4 * i);
    });
    context.putImageData(image, 0, 0);
    group.append("image").attr("class", "heat").attr("href", canvas.toDataURL()).attr("width", scales.width)
      .attr("height", scales.height).attr("preserveAspectRatio", "none");
    return shades.length;
  },
};

function drawLine(group, series, scales, curve) {
  const at = placed(series, scales, ["x", "y"]);
  const line = d3.line().x((i) => scales.x(series.x[i])).y((i) => scales.y(series.y[i])).curve(curve);
  group.append("path").attr("class", "line").attr("d", line(at))
    .attr("stroke-dasharray", series.dashed ? dashes[series.colour % dashes.length || 1] : null);
  if (series.labels) {
    hover(group.selectAll("circle").data(at).enter().append("circle").attr("class", "on-line").attr("r", 2.6)
      .attr("cx", (i) => scales.x(series.x[i])).attr("cy", (i) => scales.y(series.y[i])), series);
  }
  return at.length;
}
