// Positions: vectors added to embeddings, rotated queries and keys, biases of scores by distance.

// Vectors of positions from .. to - 1 added to x (T, C): learned or sinusoidal, or none
function addPositions(model, x, from, to) {
  const C = model.config.width, kind = model.config.positions;
  if (kind === "learned") {
    const table = model.tensors["positions.weight"].data;
    for (let k = from * C; k < to * C; k++) x[k] += table[k];
  } else if (kind === "sinusoidal") {
    for (let t = from; t < to; t++) for (let c = 0; c < C; c++) {
      const angle = t * 10000 ** (-(c - c % 2) / C);
      x[t * C + c] += Math.fround(c % 2 ? Math.cos(angle) : Math.sin(angle));
    }
  }
}

// x = x + table[0 .. T - 1]
function addPositionsBackward(model, dx, T, gradients) {
  if (model.config.positions !== "learned") return;
  const table = model.tensors["positions.weight"], dtable = new Float32Array(table.data.length);
  dtable.set(dx.subarray(0, T * model.config.width));
  accumulate(gradients, table, dtable);
}

// Rotate pairs (a, b) of coordinates of every head of x (T, n D), in place:
// y_a = x_a cos - x_b sin,  y_b = x_a sin + x_b cos. The transpose (sign -1) is the backward.
function rotate(rotary, x, from, to, n, D, sign = 1) {
  if (!rotary) return;
  const R = 2 * rotary.frequencies.length, half = rotary.layout === "half";
  for (let t = from; t < to; t++) for (let i = 0; i < R / 2; i++) {
    const angle = t * rotary.frequencies[i];
    const cosine = Math.fround(rotary.factor * Math.cos(angle));
    const sine = sign * Math.fround(rotary.factor * Math.sin(angle));
    for (let h = 0; h < n; h++) {
      const at = (t * n + h) * D, a = at + (half ? i : 2 * i), b = half ? a + R / 2 : a + 1;
      const u = x[a], v = x[b];
      x[a] = u * cosine - v * sine;
      x[b] = u * sine + v * cosine;
    }
  }
}

// What is added to the score of a key `distance` before its query: ALiBi's slopes, or T5's table
function scoreBias(model, layer, head, distance) {
  const c = model.config;
  if (c.slopes) return -c.slopes[head] * distance;
  if (c.buckets) return model.relative.data[c.buckets[distance] * c.heads + head];
  return 0;
}

// scores = scores + table[bucket of the distance]: every bucket sums over its distances
function scoreBiasBackward(model, dscores, T, N, gradients) {
  const c = model.config;
  if (!c.buckets) return;
  const dtable = new Float32Array(model.relative.data.length);
  for (let h = 0; h < c.heads; h++) for (let i = 0; i < T; i++) for (let j = 0; j <= i; j++) {
    dtable[c.buckets[i - j] * c.heads + h] += dscores[(h * N + i) * N + j];
  }
  accumulate(gradients, model.relative, dtable);
}
