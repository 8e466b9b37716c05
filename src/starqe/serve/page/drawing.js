// Draws a query as a graph: anchors as rectangles, variables as pills, targets as hexagons; predicted edges are dashed, negated ones
// dotted. Options of a union and negations are marked beside their edges; comparisons are below the graph.

import { html, percent, svg } from "./dom.js";
import { layOut } from "./layout.js";

const NODE = { size: 13, line: 17, weight: 500 };
const CAPTION = { size: 11, line: 14, weight: 500 };
const RELATION = { size: 12, line: 15, weight: 400 };
const TAG = { size: 11, line: 14, weight: 400 };
const PADDING = { x: 12, y: 9 };
const TAG_PADDING = 7;
const TAG_INSET = 2;
const TAG_GAP = 3;
const SLANT = 11; // how far the points of the target's hexagon extend
const EDGE_GAP = 4; // between an edge and the text beside it
const LIMITS = [190, 160, 132, 108, 92]; // the widest texts, tried in this order until the drawing fits
const MARGIN = 3;

let drawings = 0;
const pen = document.createElement("canvas").getContext("2d");

/** Returns the width of a text in pixels. */
function widthOf(text, font) {
  pen.font = `${font.weight} ${font.size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** Shortens a text to a width. */
function shortened(text, limit, font) {
  if (widthOf(text, font) <= limit) return text;
  const letters = [...text];
  while (letters.length > 1 && widthOf(`${letters.join("").trimEnd()}…`, font) > limit) letters.pop();
  return `${letters.join("").trimEnd()}…`;
}

/** Breaks a text into at most `most` lines of a width. */
function broken(text, limit, font, most) {
  const words = text.trim().split(/\s+/);
  const lines = [words.shift()];
  for (const [i, word] of words.entries()) {
    if (widthOf(`${lines.at(-1)} ${word}`, font) <= limit) lines[lines.length - 1] += ` ${word}`;
    else if (lines.length < most) lines.push(word);
    else {
      lines[lines.length - 1] += ` ${words.slice(i).join(" ")}`;
      break;
    }
  }
  return lines.map((line) => shortened(line, limit, font));
}

/** Returns the variable's name as it is written in a query; a node of one branch alone has the number of the branch in its id. */
const variable = (node) => `?${node.id.split("@")[0]}`;

const isNegated = (edge) => edge.marks.some((mark) => mark.kind === "not");

function nodeBox(node, limit, vertical) {
  const filled = node.kind !== "anchor" && node.entity;
  const name = node.kind === "anchor" || filled ? node.label || node.entity : variable(node);
  const lines = broken(name, limit, NODE, 3).map((text) => ({ text, font: NODE }));
  if (filled) lines.unshift({ text: variable(node), font: CAPTION, caption: true });
  const slant = node.kind === "target" ? SLANT : node.kind === "variable" ? 4 : 0;
  const width = Math.max(40, ...lines.map((line) => widthOf(line.text, line.font))) + 2 * PADDING.x + 2 * slant;
  const height = lines.reduce((sum, line) => sum + line.font.line, 0) + 2 * PADDING.y;
  const across = (vertical ? width : height) / 2;
  return {
    id: node.id,
    target: node.kind === "target",
    along: vertical ? height : width,
    before: across,
    after: across,
    node,
    lines,
    width,
    height,
  };
}

/** Creates a tag; a pair that is too long for one line has its value on the second. */
function tagBox(kind, text, title, limit, pair = null) {
  const parts = pair && widthOf(text, TAG) > limit ? [`${nameOf(pair.relation)}:`, nameOf(pair.value)] : [text];
  const lines = parts.map((part) => shortened(part, limit, TAG));
  const width = Math.max(...lines.map((line) => widthOf(line, TAG))) + 2 * TAG_PADDING;
  return { kind, title, lines, width, height: lines.length * TAG.line + 2 * TAG_INSET };
}

function labelBox(edge, limit, vertical) {
  const lines = broken(nameOf(edge.relation), limit, RELATION, 3);
  const pairKind = ({ relation, value }) => (relation.kind === "target" || value.kind === "target" ? "pair target" : "pair");
  const tags = [
    ...edge.marks.map((mark) => tagBox(mark.kind, mark.text, mark.title, limit)),
    ...edge.qualifiers.map((pair) => tagBox(pairKind(pair), pairText(pair), pairText(pair), limit, pair)),
  ];
  if (edge.fact === true) tags.unshift(tagBox("fact", "fact", "The graph has this statement", limit));
  if (edge.fact === false) {
    const chance = edge.probability === null || edge.probability === undefined ? "" : ` ${percent(edge.probability)}`;
    const missing = isNegated(edge);
    const title = missing ? "The answer relies on this: the graph does not have this statement" : "The graph does not have this statement";
    tags.unshift(tagBox("chance", `${missing ? "missing" : "predicted"}${chance}`, title, limit));
  }
  const width = Math.max(...lines.map((line) => widthOf(line, RELATION)), ...tags.map((tag) => tag.width)) + 2 * EDGE_GAP;
  const above = lines.length * RELATION.line + EDGE_GAP;
  const below = tags.reduce((sum, tag) => sum + tag.height + TAG_GAP, EDGE_GAP);
  const box = { from: edge.from, to: edge.to, edge, lines, tags, width, above, below };
  return vertical
    ? { ...box, along: above + below, before: width / 2, after: width / 2 }
    : { ...box, along: width, before: above, after: below };
}

const nameOf = (named) => named.label || named.entity;
const pairText = (pair) => `${nameOf(pair.relation)}: ${nameOf(pair.value)}`;
const classes = (...names) => names.filter(Boolean).join(" ");

/** Lays a drawing out for a width: from left to right if that fits without shortening a text, else from top to bottom. */
function fitted(drawing, room) {
  const tried = [];
  for (const vertical of [false, true]) {
    for (const limit of LIMITS) {
      const nodes = drawing.nodes.map((node) => nodeBox(node, limit, vertical));
      const labels = drawing.edges.map((edge) => labelBox(edge, limit, vertical));
      const placed = layOut(nodes, labels, vertical ? 26 : 18);
      const width = (vertical ? placed.depth : placed.length) + 2 * MARGIN;
      const height = (vertical ? placed.length : placed.depth) + 2 * MARGIN;
      const texts = [
        ...nodes.flatMap((box) => box.lines.map((line) => line.text)),
        ...labels.flatMap((box) => [...box.lines, ...box.tags.flatMap((tag) => tag.lines)]),
      ];
      const found = { vertical, nodes, labels, placed, width, height, whole: !texts.some((text) => text.endsWith("…")) };
      if (width <= room && found.whole) return found;
      tried.push(found);
    }
  }
  return tried.find((found) => found.width <= room) ?? tried.reduce((best, found) => (found.width < best.width ? found : best));
}

/** Returns how far inside of its box the border of a node is, away from the middle of a side. */
function inset(box, offset, vertical) {
  if (vertical || box.node.kind === "anchor") return 0;
  const half = box.height / 2;
  if (box.node.kind === "target") return (Math.abs(offset) / half) * SLANT;
  const radius = Math.min(half, 20);
  const into = Math.max(0, Math.abs(offset) - (half - radius));
  return radius - Math.sqrt(Math.max(0, radius * radius - into * into));
}

/** Returns the line of an edge: from its first node to its label, along it, and on to its second node. */
function line(figure, number) {
  const { placed, vertical } = figure;
  const point = (along, across) => (vertical ? `${round(across)},${round(along)}` : `${round(along)},${round(across)}`);
  const label = figure.labels[number];
  const [from, to] = [label.from, label.to].map((id) => figure.nodes.findIndex((box) => box.id === id));
  const end = (node, which) => {
    const side = Math.sign(placed.columns.labels[number] - placed.columns.nodes[node]);
    const across = placed.ends[number][which];
    const box = figure.nodes[node];
    const reach = box.along / 2 - inset(box, across - placed.nodes[node].across, vertical) + (which ? 2 : 0);
    return { side, across, along: placed.nodes[node].along + side * reach };
  };
  const [start, stop] = [end(from, 0), end(to, 1)];
  const { along, across, band } = placed.labels[number];
  const begin = `M${point(start.along, start.across)}`;
  if (placed.columns.nodes[from] === placed.columns.nodes[to]) {
    const near = along - start.side * (label.along / 2 + EDGE_GAP);
    const turn = Math.sign(stop.across - start.across || 1) * Math.min(24, Math.abs(stop.across - start.across) / 3);
    return `${begin}C${point(near, start.across)} ${point(near, across - turn)} ${point(near, across)}S${point(near, stop.across)} ${point(stop.along, stop.across)}`;
  }
  const [enter, leave] = [along - (start.side * band) / 2, along + (start.side * band) / 2]; // straight between other labels
  const [first, second] = [(start.along + enter) / 2, (stop.along + leave) / 2];
  return (
    `${begin}C${point(first, start.across)} ${point(first, across)} ${point(enter, across)}` +
    `L${point(leave, across)}C${point(second, across)} ${point(second, stop.across)} ${point(stop.along, stop.across)}`
  );
}

const round = (value) => Math.round(value * 10) / 10;

function outline(box) {
  const [w, h] = [box.width / 2, box.height / 2];
  const rect = (radius) => svg("rect", { class: "outline", x: -w, y: -h, width: box.width, height: box.height, rx: radius });
  if (box.node.kind === "anchor") return rect(3);
  if (box.node.kind === "variable") return rect(Math.min(h, 20));
  const s = SLANT;
  return svg("polygon", { class: "outline", points: `${-w},0 ${s - w},${-h} ${w - s},${-h} ${w},0 ${w - s},${h} ${s - w},${h}` });
}

function nodeMark(box, x, y) {
  let top = -box.height / 2 + PADDING.y;
  const texts = box.lines.map(({ text, font, caption }) => {
    top += font.line;
    return svg("text", { class: caption ? "caption" : "name", y: top - font.line * 0.27, "font-size": font.size }, text);
  });
  const title =
    [box.node.label, box.node.entity].filter((text, i, all) => text && all.indexOf(text) === i).join("\n") || variable(box.node);
  return svg(
    "g",
    { class: `node ${box.node.kind}`, transform: `translate(${round(x)},${round(y)})` },
    svg("title", {}, title),
    outline(box),
    texts,
  );
}

function labelMark(box, x, y, vertical) {
  const top = vertical ? -(box.above + box.below) / 2 : -box.above;
  const lines = box.lines.map((text, i) =>
    svg("text", { class: classes("relation", box.edge.relation.kind === "target" && "target"), y: top + (i + 0.78) * RELATION.line, "font-size": RELATION.size }, text),
  );
  let below = top + box.above + EDGE_GAP;
  const tags = box.tags.map((tag) => {
    const at = below;
    below += tag.height + TAG_GAP;
    return svg(
      "g",
      { class: `tag ${tag.kind}` },
      svg("title", {}, tag.title),
      svg("rect", { x: -tag.width / 2, y: at, width: tag.width, height: tag.height, rx: 9 }),
      tag.lines.map((text, i) => svg("text", { y: at + TAG_INSET + (i + 0.77) * TAG.line, "font-size": TAG.size }, text)),
    );
  });
  const ground = svg("rect", { class: "ground", x: -box.width / 2, y: top, width: box.width, height: box.above + box.below });
  const { relation } = box.edge;
  const title = [relation.label, relation.entity].filter((text, i, all) => text && all.indexOf(text) === i).join("\n");
  return svg(
    "g",
    { class: classes("label", !box.edge.used && "unused"), transform: `translate(${round(x)},${round(y)})` },
    vertical && ground,
    svg("g", {}, svg("title", {}, title), lines),
    tags,
  );
}

const marksText = ({ marks }) => marks.map((mark) => `${mark.text}: `).join("");
const conditionText = (condition) => `${marksText(condition)}${condition.text}`;

/** Writes the comparisons of a query, which have no place in the graph. */
function conditionList({ conditions }) {
  const item = (condition) =>
    html("li", { class: condition.holds === false ? "unmet" : null }, conditionText(condition), condition.holds === false && " (not met)");
  return html("ul", { class: "conditions", "aria-hidden": "true" }, conditions.map(item));
}

/** Describes in words what a drawing shows. */
function inWords(drawing) {
  const named = new Map(drawing.nodes.map((node) => [node.id, node.kind === "anchor" || node.entity ? node.label : variable(node)]));
  const sentences = drawing.edges.map((edge) => {
    const pairs = edge.qualifiers.length ? ` (${edge.qualifiers.map(pairText).join(", ")})` : "";
    const status = edge.fact === false ? (isNegated(edge) ? ", missing" : ", predicted") : edge.fact === true ? ", a fact" : "";
    return `${marksText(edge)}${named.get(edge.from)}, ${edge.relation.label}, ${named.get(edge.to)}${pairs}${status}`;
  });
  return `The query as a graph. ${[...sentences, ...drawing.conditions.map(conditionText)].join(". ")}.`;
}

function picture(drawing, room) {
  const figure = fitted(drawing, room);
  const { placed, vertical, width, height } = figure;
  const [heads, kinds] = [`arrow-${++drawings}`, ["asked", "fact", "predicted"]];
  const at = ({ along, across }) => (vertical ? [across, along] : [along, across]);
  const arrows = kinds.map((kind) =>
    svg(
      "marker",
      { id: `${heads}-${kind}`, markerWidth: 9, markerHeight: 8, refX: 8, refY: 4, orient: "auto", markerUnits: "userSpaceOnUse" },
      svg("path", { class: `head ${kind}`, d: "M0,0.5 8.5,4 0,7.5 2,4z" }),
    ),
  );
  const edges = figure.labels.map((box, i) => {
    const kind = { true: "fact", false: "predicted" }[box.edge.fact] ?? "asked";
    return svg("path", { class: classes("edge", kind, isNegated(box.edge) && "negated", !box.edge.used && "unused"), d: line(figure, i), "marker-end": `url(#${heads}-${kind})` });
  });
  return svg(
    "svg",
    {
      class: "graph",
      role: "img",
      "aria-label": inWords(drawing),
      width: round(width),
      height: round(height),
      viewBox: `${-MARGIN} ${-MARGIN} ${round(width)} ${round(height)}`,
    },
    svg("defs", {}, arrows),
    edges,
    figure.labels.map((box, i) => labelMark(box, ...at(placed.labels[i]), vertical)),
    figure.nodes.map((box, i) => nodeMark(box, ...at(placed.nodes[i]))),
  );
}

/** Shows drawings in an element, again whenever its width changes. Returns functions to show one and to mark it as old. */
export function drawIn(element) {
  let shown = null;
  let room = 0;
  const render = () => {
    const fresh = element.clientWidth;
    if (fresh === 0) return;
    room = fresh;
    element.replaceChildren(
      ...(shown?.nodes.length ? [picture(shown, room)] : []),
      ...(shown?.conditions.length ? [conditionList(shown)] : []),
    );
  };
  new ResizeObserver(() => element.clientWidth !== room && render()).observe(element);
  return {
    show(drawing) {
      shown = drawing;
      element.classList.remove("old");
      render();
    },
    old: () => element.classList.add("old"),
  };
}
