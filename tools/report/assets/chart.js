// Draws one figure, given as data (page.h), as SVG whose colours the style sheet decides: light, dark and print differ in
// nothing else.
"use strict";

const fontSize = 11;
const longestY = 26; // letters of a text beside the plot
const rowHeight = 24; // of tiles

function svgElement(plot, width, height) {
  return d3.select(plot).append("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img");
}

// From the first text to the second.
function drawShades(legend, [low, high]) {
  const scale = legend.append("span").attr("class", "shades");
  scale.append("span").text(low);
  scale.append("svg").attr("viewBox", "0 0 100 12").attr("width", 100).attr("height", 12).attr("aria-hidden", "true")
    .selectAll("rect").data(d3.range(50)).enter().append("rect").attr("x", (i) => 2 * i).attr("width", 3).attr("height", 12)
    .attr("fill", (i) => d3.interpolateCividis(i / 49));
  scale.append("span").text(high);
}

// A legend entry switches its series off and on.
function drawLegend(plot, series, groups, shades) {
  const named = series.map((one, i) => ({ one, i })).filter(({ one }) => one.name);
  if (named.length === 0 && !shades) return;
  const legend = d3.select(plot).insert("div", "svg").attr("class", "legend").attr("role", "group").attr("aria-label", "Legend");
  if (shades) drawShades(legend, shades);
  const items = legend.selectAll("button").data(named).enter()
    .append("button").attr("type", "button").attr("class", ({ one }) => `c${one.colour}`).attr("aria-pressed", "true");
  const swatch = items.append("svg").attr("viewBox", "0 0 26 12").attr("width", 26).attr("height", 12)
    .attr("aria-hidden", "true");
  swatch.each(function ({ one }) {
    const here = d3.select(this);
    if (one.kind === "line" || one.kind === "steps") {
      here.append("path").attr("class", "line").attr("d", "M1,6H25")
        .attr("stroke-dasharray", one.dashed ? dashes[one.colour % dashes.length || 1] : null);
    } else if (one.kind === "points") {
      here.append("path").attr("class", "point").attr("d", symbolPath(one.colour, 46)).attr("transform", "translate(13,6)");
    } else {
      const kind = { bars: "bar", band: "band", cells: "cell" }[one.kind] || "bar";
      here.append("rect").attr("class", kind).attr("x", 5).attr("y", 1).attr("width", 16).attr("height", 10);
    }
  });
  items.append("span").text(({ one }) => one.name);
  items.on("click", function ({ i }) {
    const off = this.getAttribute("aria-pressed") === "true";
    this.setAttribute("aria-pressed", String(!off));
    groups[i].style("display", off ? "none" : null);
  });
}

function drawAxes(svg, figure, scales, bottom) {
  const { width, height } = scales;
  const yTicks = thinned(scales.y.ticks, scales.y, () => fontSize + 2);
  const space = (tick) => (bottom.turned ? fontSize + 2 : characterWidth * longestLine(shortened(scales.x.text(tick), 28)) + 8);
  const whole = figure.x.scale === "categories" && !bottom.turned && !figure.x.thinned; // there was room for all of them
  const xTicks = whole ? scales.x.ticks : thinned(scales.x.ticks, scales.x, space);
  const grid = svg.append("g").attr("class", "gridlines");
  if (figure.y.scale !== "categories") {
    grid.selectAll(".h").data(yTicks).enter().append("line").attr("class", "h").attr("x2", width)
      .attr("y1", scales.y).attr("y2", scales.y);
  }
  if (figure.x.scale !== "categories") {
    grid.selectAll(".v").data(xTicks).enter().append("line").attr("class", "v").attr("y2", height)
      .attr("x1", scales.x).attr("x2", scales.x);
  }
  const axes = svg.append("g").attr("class", "axes");
  axes.append("path").attr("class", "frame").attr("d", `M0,0V${height}H${width}`);
  axes.selectAll(".y").data(yTicks).enter().append("text").attr("class", "tick y").attr("x", -7).attr("dy", "0.35em")
    .attr("y", scales.y).text((tick) => shortened(scales.y.text(tick), longestY));
  const texts = axes.selectAll(".x").data(xTicks).enter().append("text");
  texts.selectAll("tspan").data((tick) => lines(shortened(scales.x.text(tick), 28)).map((line, i) => ({ line, i, tick }))).enter()
    .append("tspan").attr("x", bottom.turned ? 0 : ({ tick }) => scales.x(tick)).attr("dy", ({ i }) => (i ? fontSize + 2 : 0))
    .text(({ line }) => line);
  if (bottom.turned) {
    texts.attr("class", "tick turned").attr("transform", (tick) => `translate(${scales.x(tick) + 4},${height + 10}) rotate(-40)`);
  } else {
    texts.attr("class", "tick x").attr("y", height + 17);
  }
  axes.append("text").attr("class", "axis-label").attr("x", width / 2).attr("y", height + bottom.size - 8).text(figure.x.label);
  axes.append("text").attr("class", "axis-label")
    .attr("transform", `translate(${-bottom.left + 12},${height / 2}) rotate(-90)`).text(figure.y.label);
}

// Places texts beside their points, where they run neither into each other nor out of the plot; where all is taken, a text
// is left out.
function textPlacer(width, height) {
  const taken = [];
  const free = (box) => box.left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= height &&
    taken.every((other) => box.right < other.left || box.left > other.right || box.bottom < other.top || box.top > other.bottom);
  const boxAt = (x, y, anchor, long) => {
    const left = anchor === "start" ? x : x - long;
    return { left, right: left + long, top: y - fontSize, bottom: y + 3, x, y, anchor };
  };
  return (x, y, text) => {
    const long = characterWidth * text.length;
    for (let distance = 0; distance < 2; ++distance) {
      for (const below of [-1, 1]) {
        for (const anchor of ["start", "end"]) {
          const side = anchor === "start" ? 7 : -7;
          const box = boxAt(x + side, y + (below < 0 ? -6 : 15) + below * distance * (fontSize + 3), anchor, long);
          if (!free(box)) continue;
          taken.push(box);
          return box;
        }
      }
    }
    return null;
  };
}

function drawRulesAndNotes(svg, figure, scales) {
  const { width, height } = scales;
  const place = textPlacer(width, height);
  const group = svg.append("g").attr("class", "rules");
  const write = (x, y, text, kind) => {
    const box = text && place(x, y, text);
    if (box) group.append("text").attr("class", kind).attr("x", box.x).attr("y", box.y).attr("text-anchor", box.anchor).text(text);
  };
  let marks = 0;
  for (const note of [...figure.notes].reverse()) { // the last ones first: of many changes, the latest matter
    const [x, y] = [scales.x(note.x), scales.y(note.y)];
    if (!Number.isFinite(x) || !Number.isFinite(y)) continue;
    group.append("circle").attr("class", "note-point").attr("r", 3.2).attr("cx", x).attr("cy", y)
      .append("title").text(note.text);
    write(x, y, note.text, "note");
    ++marks;
  }
  for (const rule of figure.rules) {
    const upright = isNumber(rule.x);
    const at = upright ? scales.x(rule.x) : scales.y(rule.y);
    if (!Number.isFinite(at)) continue;
    group.append("path").attr("class", "rule").attr("d", upright ? `M${at},0V${height}` : `M0,${at}H${width}`);
    if (upright) write(at, 18, rule.text, "note");
    else write(width, at, rule.text, "note");
    ++marks;
  }
  return marks;
}

// Draws `figure` into the element `plot`. Returns the number of marks.
function drawFigure(plot, figure) {
  const total = figure.small ? { width: 430, height: 290 } : { width: 660, height: 400 };
  if (figure.shades) total.height = 70 + rowHeight * figure.y.categories.length;
  const categories = figure.x.categories || [];
  const longest = d3.max(categories, (name) => longestLine(shortened(name, 28))) || 0;
  const heat = figure.series.some((series) => series.kind === "heat");
  const outline = makeScale(figure.y, valuesAlong(figure, "y"), [total.height, 0]);
  const left = 36 + characterWidth * (d3.max(outline.ticks, (tick) => shortened(outline.text(tick), longestY).length) || 1);
  const right = 16;
  const width = total.width - left - right;
  const turned = !figure.x.thinned && longest * characterWidth + 8 > width / Math.max(1, categories.length);
  const size = turned ? 40 + Math.min(longest * characterWidth * 0.66, 130) : categories.some((name) => lines(name).length > 1) ? 59 : 46;
  const height = total.height - 12 - size;

  const svg = svgElement(plot, total.width, total.height).attr("aria-label", figure.title);
  const inner = svg.append("g").attr("transform", `translate(${left},12)`);
  const scales = {
    x: makeScale(figure.x, valuesAlong(figure, "x"), [0, width]),
    y: makeScale(figure.y, valuesAlong(figure, "y"), heat ? [0, height] : [height, 0]),
    width, height,
  };
  inner.classed("has-heat", heat).classed("has-tiles", Boolean(figure.shades));
  drawAxes(inner, figure, scales, { size, turned, left });
  let marks = 0;
  const groups = figure.series.map((series) => {
    const group = inner.append("g").attr("class", `series c${series.colour}`);
    marks += drawMarks[series.kind](group, series, scales);
    return group;
  });
  marks += drawRulesAndNotes(inner, figure, scales);
  drawLegend(plot, figure.series, groups, figure.shades);
  return marks;
}
