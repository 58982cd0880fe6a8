// Axes of a figure: positions, ticks and their texts.
"use strict";

const characterWidth = 6.4; // of the plot's text, on average, in units of the drawing

function formatNumber(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-3) return d3.format(".3~s")(value).replace("G", " G").replace("M", " M").replace("k", " k");
  return d3.format(",.4~r")(value);
}

function formatSparsity(share) {
  return `${+(100 * share).toFixed(3)} %`;
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// All values of a figure along "x" or "y", for the range of its axis.
function valuesAlong(figure, along) {
  const values = [];
  for (const series of figure.series) {
    if (series.kind === "heat") continue;
    for (const key of along === "y" ? ["y", "low", "high"] : ["x"]) values.push(...(series[key] || []));
  }
  for (const rule of figure.rules) values.push(rule[along]);
  for (const note of figure.notes) values.push(note[along]);
  return values.filter(isNumber);
}

function makeScale(axis, values, range) {
  if (axis.scale === "categories") {
    const band = d3.scaleBand(d3.range(axis.categories.length), range).padding(0.2);
    const last = axis.categories.length - 0.5;
    const scale = (value) => (value >= -0.5 && value <= last ? band(0) + band.bandwidth() / 2 + value * (band(1) - band(0) || 0) : NaN);
    scale.step = band.step();
    scale.bandwidth = band.bandwidth();
    return Object.assign(scale, { ticks: d3.range(axis.categories.length), text: (i) => axis.categories[i] });
  }
  const all = values.concat([axis.low, axis.high].filter(isNumber));
  if (axis.scale === "log") return logScale(axis, all.filter((value) => value > 0), range);
  if (axis.scale === "sparsity") return sparsityScale(axis, all, range);
  let [low, high] = all.length ? d3.extent(all) : [0, 1];
  if (low === high) [low, high] = [low - Math.abs(low) / 2 - 0.5, high + Math.abs(high) / 2 + 0.5];
  const pad = 0.04 * (high - low);
  const scale = d3.scaleLinear([low === axis.low ? low : low - pad, high === axis.high ? high : high + pad], range);
  const count = Math.abs(range[1] - range[0]) / (range[0] > range[1] ? 45 : 80);
  const counts = all.every(Number.isInteger); // no ticks between what can only be counted
  const ticks = axis.ticks || scale.ticks(count).filter((tick) => !counts || Number.isInteger(tick));
  return Object.assign((value) => scale(value), { ticks, text: formatNumber });
}

// Ticks at 1, 2 and 5 of each decade where these fit; at fewer places otherwise; at rounder ones within a decade.
function logTicks([low, high], most) {
  const decades = Math.log10(high / low);
  const within = (value) => value >= low * 0.999 && value <= high * 1.001;
  const places = (multiples) =>
    d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1)
      .flatMap((decade) => multiples.map((multiple) => multiple * 10 ** decade)).filter(within);
  for (const multiples of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = places(multiples);
    if (ticks.length <= most && ticks.length >= 3) return ticks;
    if (multiples.length === 6 && ticks.length < 3) return d3.ticks(low, high, Math.min(most, 6)).filter(within);
  }
  const every = Math.ceil(decades / most);
  return places([1]).filter((_, i) => i % every === 0);
}

function logScale(axis, values, range) {
  let [low, high] = values.length ? d3.extent(values) : [1, 10];
  if (low === high) [low, high] = [low / 2, high * 2];
  const pad = (high / low) ** 0.05;
  const domain = [low / pad, high * pad];
  const scale = d3.scaleLog(domain, range);
  const most = Math.abs(range[1] - range[0]) / (range[0] > range[1] ? 36 : 62);
  const ticks = axis.ticks ? axis.ticks.filter((tick) => tick >= domain[0] && tick <= domain[1]) : logTicks(domain, most);
  return Object.assign((value) => (value > 0 ? scale(value) : NaN), { ticks, text: formatNumber });
}

function sparsityScale(axis, values, range) {
  const places = [0, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 0.99999];
  const densities = values.filter((value) => value >= 0 && value < 1).map((value) => 1 - value);
  let [low, high] = densities.length ? d3.extent(densities) : [0.01, 1];
  if (high / low < 1.5) [low, high] = [low / 1.5, Math.min(1, high * 1.5)];
  const pad = (high / low) ** 0.05;
  const scale = d3.scaleLog([Math.min(1, high * pad), low / pad], range);
  const position = (value) => (value < 1 ? scale(1 - value) : NaN);
  let ticks = [];
  for (const place of places) {
    const at = position(place);
    const inside = at >= Math.min(...range) - 0.5 && at <= Math.max(...range) + 0.5;
    if (inside && (!ticks.length || at - position(ticks[ticks.length - 1]) > 44)) ticks.push(place);
  }
  if (ticks.length < 2) ticks = d3.extent(values).filter((value, i, all) => !i || position(value) - position(all[0]) > 44);
  return Object.assign(position, { ticks, text: formatSparsity });
}

// Texts of ticks that would run into each other are left out.
function thinned(ticks, position, least) {
  let last = -Infinity;
  return ticks.filter((tick) => {
    if (Math.abs(position(tick) - last) < least(tick)) return false;
    last = position(tick);
    return true;
  });
}

// The end of a name tells layers apart; it begins at a part of the name where one fits.
function shortened(text, most) {
  if (text.length <= most) return text;
  const end = text.slice(text.length - most + 1);
  const part = end.search(/[._\/ ]/);
  return `…${part >= 0 && part < end.length - 3 ? end.slice(part) : end}`;
}

const lines = (text) => String(text).split("\n");
const longestLine = (text) => d3.max(lines(text), (line) => line.length);
