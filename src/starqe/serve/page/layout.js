// Places a graph in layers, as arithmetic on boxes: no page, no text.
//
// Nodes are in columns by their distance from the target, which is in the last one. The label of every edge is a box of its
// own in the column between (or beside) its ends, and the edge runs through it. So no two boxes of a column overlap by
// construction, and parallel edges, opposite edges and cycles need no rule of their own.
//
// "along" is the axis from the first column to the last, "across" the other one. A box has a size along, and the room that it
// takes before and after its line across. A link joins a node with a label.

const BOX_GAP = 14;
const PORT_GAP = 9;
const SWEEPS = 12;

/**
 * Places nodes and edges.
 *
 * nodes: [{id, target, along, before, after}], edges: [{from, to, along, before, after}], columnGap: between two columns.
 * Returns {nodes, labels: [{along, across, band}], ends: [[start, end]], columns: {nodes, labels}, length, depth}: positions are of
 * the middle along and of the line across, a band is as wide as the column, and ends say where across an edge leaves and enters.
 */
export function layOut(nodes, edges, columnGap) {
  const index = new Map(nodes.map((node, i) => [node.id, i]));
  const ends = edges.map((edge) => [index.get(edge.from), index.get(edge.to)]);
  const columnOf = nodeColumns(nodes, ends);
  const last = Math.max(...columnOf);
  const labelColumn = ends.map(([a, b]) =>
    columnOf[a] !== columnOf[b] ? (columnOf[a] + columnOf[b]) / 2 : columnOf[a] + (columnOf[a] < last || last === 0 ? 1 : -1),
  );
  const items = [
    ...nodes.map((node, i) => ({ ...node, column: columnOf[i], near: [] })),
    ...edges.map((edge, i) => ({ ...edge, column: labelColumn[i], near: [] })),
  ];
  ends.forEach(([a, b], i) => {
    for (const node of a === b ? [a] : [a, b]) {
      items[nodes.length + i].near.push(items[node]);
      items[node].near.push(items[nodes.length + i]);
    }
  });
  const columns = Array.from({ length: Math.max(...items.map((item) => item.column)) + 1 }, (_, c) =>
    items.filter((item) => item.column === c),
  );
  order(columns);
  placeAcross(columns);
  const length = placeAlong(columns, columnGap);
  const depth = shiftToZero(items);
  const [placedNodes, labels] = [items.slice(0, nodes.length), items.slice(nodes.length)];
  return {
    nodes: placedNodes.map(position),
    labels: labels.map(position),
    ends: ports(placedNodes, labels, ends),
    columns: { nodes: columnOf, labels: labelColumn },
    length,
    depth,
  };
}

const position = (item) => ({ along: item.middle, across: item.across, band: item.band });
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Assigns every node its column: twice the number of steps that it is nearer to the target than the farthest one. */
function nodeColumns(nodes, ends) {
  const distance = nodes.map(() => -1);
  const starts = nodes.map((_, i) => i).sort((a, b) => Number(Boolean(nodes[b].target)) - Number(Boolean(nodes[a].target)));
  for (const start of starts) {
    if (distance[start] >= 0) continue; // a part that is not connected with the target starts again
    distance[start] = 0;
    for (const queue = [start]; queue.length;) {
      const node = queue.shift();
      for (const [a, b] of ends) {
        const other = a === node ? b : b === node ? a : node;
        if (distance[other] < 0) {
          distance[other] = distance[node] + 1;
          queue.push(other);
        }
      }
    }
  }
  const farthest = Math.max(...distance);
  return distance.map((steps) => 2 * (farthest - steps));
}

/** Orders each column so that few links cross: every box moves towards the mean place of its neighbours, and the best try is kept. */
function order(columns) {
  const number = () => columns.forEach((column) => column.forEach((item, i) => (item.place = (i + 0.5) / column.length)));
  number();
  let [best, fewest] = [columns.map((column) => [...column]), crossings(columns)];
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      const wanted = new Map(column.map((item) => [item, item.near.length ? mean(item.near.map((other) => other.place)) : item.place]));
      column.sort((a, b) => wanted.get(a) - wanted.get(b));
      column.forEach((item, i) => (item.place = (i + 0.5) / column.length));
    }
    const found = crossings(columns);
    if (found < fewest) [best, fewest] = [columns.map((column) => [...column]), found];
  }
  best.forEach((column, c) => columns[c].splice(0, Infinity, ...column));
  number();
}

/** Counts the pairs of links between two columns that cross. */
function crossings(columns) {
  let found = 0;
  for (const column of columns) {
    const links = column.flatMap((item) =>
      item.near.filter((other) => other.column === item.column + 1).map((other) => [item.place, other.place]),
    );
    links.forEach(([a, b], i) => links.slice(i + 1).forEach(([c, d]) => (found += (a - c) * (b - d) < 0 ? 1 : 0)));
  }
  return found;
}

/** Places every box across, near the mean of its neighbours, in the order of its column and without overlap. */
function placeAcross(columns) {
  columns.flat().forEach((item) => (item.across = 0));
  for (const column of columns)
    settle(
      column,
      column.map(() => 0),
    );
  for (let sweep = 0; sweep < 2 * SWEEPS; sweep++) {
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      settle(
        column,
        column.map((item) => (item.near.length ? mean(item.near.map((other) => other.across)) : item.across)),
      );
    }
  }
}

/** Moves the boxes of a column to the places without overlap that are nearest (in squares) to the wanted ones. */
function settle(column, wanted) {
  // With the room that the boxes need taken out, the places must only not decrease: an isotonic regression, by pooling.
  let room = 0;
  const rooms = column.map((item, i) => (room += i ? column[i - 1].after + BOX_GAP + item.before : 0));
  const pools = [];
  wanted.forEach((value, i) => {
    pools.push({ sum: value - rooms[i], count: 1 });
    for (let top = pools.length - 1; top > 0 && pools[top - 1].sum / pools[top - 1].count > pools[top].sum / pools[top].count; top--) {
      const pool = pools.pop();
      pools[top - 1].sum += pool.sum;
      pools[top - 1].count += pool.count;
    }
  });
  const places = pools.flatMap((pool) => Array(pool.count).fill(pool.sum / pool.count));
  column.forEach((item, i) => (item.across = places[i] + rooms[i]));
}

/** Places the columns one after the other; returns the whole length. */
function placeAlong(columns, columnGap) {
  let at = 0;
  for (const column of columns) {
    const width = Math.max(0, ...column.map((item) => item.along));
    column.forEach((item) => Object.assign(item, { middle: at + width / 2, band: width }));
    at += width + columnGap;
  }
  return at - columnGap;
}

/** Lets the first box begin at zero; returns the whole depth. */
function shiftToZero(items) {
  const first = Math.min(...items.map((item) => item.across - item.before));
  items.forEach((item) => (item.across -= first));
  return Math.max(...items.map((item) => item.across + item.after));
}

/** Returns for every edge where across it leaves its first node and enters its second: links on one side of a node are kept apart. */
function ports(nodes, labels, ends) {
  const found = ends.map(() => [0, 0]);
  nodes.forEach((node, n) => {
    for (const side of [-1, 1]) {
      const links = ends
        .flatMap(([a, b], e) => [
          [a, e, 0],
          [b, e, 1],
        ])
        .filter(([end, e]) => end === n && Math.sign(labels[e].column - node.column) === side);
      links.sort(([, e, end], [, f, other]) => labels[e].across - labels[f].across || e - f || end - other);
      const gap = Math.min(PORT_GAP, ((node.before + node.after) * 0.6) / Math.max(1, links.length - 1));
      links.forEach(([, e, end], i) => (found[e][end] = node.across + (i - (links.length - 1) / 2) * gap));
    }
  });
  return found;
}
