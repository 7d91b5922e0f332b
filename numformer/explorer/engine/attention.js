// Multi-head causal attention, with a scale for the output of each head: forward and backward.

// The part of a block that attends
function attentionOf(tensors, name, config, layer) {
  const part = (each) => tensors[name + "." + each] || null;
  const map = (each) => ({ weight: part(each + ".weight"), bias: part(each + ".bias") });
  return {
    query: map("query"), key: map("key"), value: map("value"), output: map("output"), layer,
    queryNorm: headNormOf(tensors, name + ".query_norm", config),
    keyNorm: headNormOf(tensors, name + ".key_norm", config),
    rotary: config.rotary && config.rotary[layer], window: config.windows[layer],
  };
}

// What one attention saves for N positions: rows are appended as tokens come, so that the keys and
// values of earlier tokens are its KV cache.
function attentionSaved(config, N) {
  const { heads: H, groups: G, headWidth: D } = config, rows = (n) => new Float32Array(N * n);
  return {
    q0: rows(H * D), k0: rows(G * D),                                   // before norm and rotation
    q: rows(H * D), k: rows(G * D), v: rows(G * D), o: rows(H * D),     // o: scaled by head
    qStats: rows(2 * H), kStats: rows(2 * G),
    p: rows(H * N), scores: rows(H * N), scale: new Float64Array(H).fill(1),
  };
}

// Queries or keys of rows from .. to - 1: y = rotate(norm(x W + b))
function encodedHeads(map, norm, rotary, x, from, to, n, D, raw, y, stats) {
  linear(x, from, to, map.weight, map.bias, raw);                       // (T, n D)
  if (norm) normForward(norm, raw, from * n, to * n, y, stats);
  else y.set(raw.subarray(from * n * D, to * n * D), from * n * D);
  rotate(rotary, y, from, to, n, D);
}

// y = join(scale_h o_h) W_O + b_O,  o_h = softmax(s q k' + bias) v, in rows from .. to - 1
function attentionForward(model, part, x, saved, from, to, y) {
  const { heads: H, groups: G, headWidth: D } = model.config, s = saved, N = model.capacity;
  encodedHeads(part.query, part.queryNorm, part.rotary, x, from, to, H, D, s.q0, s.q, s.qStats);
  encodedHeads(part.key, part.keyNorm, part.rotary, x, from, to, G, D, s.k0, s.k, s.kStats);
  linear(x, from, to, part.value.weight, part.value.bias, s.v);
  for (let h = 0; h < H; h++) for (let i = from; i < to; i++) {
    attendRow(model, part, s, h, i, Math.floor(h * G / H), N);
  }
  linear(s.o, from, to, part.output.weight, part.output.bias, y);       // (T, C)
}

// The weights of one query, and what they mix
function attendRow(model, part, s, h, i, g, N) {
  const { heads: H, groups: G, headWidth: D, scale } = model.config;
  const row = (h * N + i) * N, first = part.window ? Math.max(0, i - part.window + 1) : 0;
  let top = -Infinity, sum = 0;
  for (let j = first; j <= i; j++) {
    const bias = scoreBias(model, part.layer, h, i - j);
    const score = scale * dot(s.q, (i * H + h) * D, s.k, (j * G + g) * D, D) + bias;
    s.scores[row + j] = score;
    if (score > top) top = score;
  }
  for (let j = first; j <= i; j++) sum += s.p[row + j] = Math.exp(s.scores[row + j] - top);
  for (let j = 0; j < first; j++) s.p[row + j] = 0;
  for (let j = first; j <= i; j++) s.p[row + j] /= sum;
  for (let d = 0; d < D; d++) {
    let o = 0;
    for (let j = first; j <= i; j++) o += s.p[row + j] * s.v[(j * G + g) * D + d];
    s.o[(i * H + h) * D + d] = s.scale[h] * o;
  }
}

// The gradient in rows 0 .. T - 1: returns dx; `seen` gets dscores (H, N, N), dq (T, H D), dk and
// dv (T, G D), the gradients of q and k as scores have them, after norm and rotation.
function attentionBackward(model, part, dy, x, s, T, gradients, seen) {
  const { heads: H, groups: G, headWidth: D, scale } = model.config, N = model.capacity;
  const dscores = new Float32Array(H * N * N), dq = new Float32Array(T * H * D);
  const dk = new Float32Array(T * G * D), dv = new Float32Array(T * G * D);

  // y = o W_O + b_O
  const scaled = linearBackward(dy, s.o, T, part.output.weight, part.output.bias, gradients);
  const dp = new Float64Array(T);
  for (let h = 0; h < H; h++) for (let i = 0; i < T; i++) {
    const g = Math.floor(h * G / H), row = (h * N + i) * N, at = (i * H + h) * D;
    const first = part.window ? Math.max(0, i - part.window + 1) : 0;

    // o_i = scale_h sum_j p_ij v_j
    let mean = 0;
    for (let j = first; j <= i; j++) {
      dp[j] = s.scale[h] * dot(scaled, at, s.v, (j * G + g) * D, D);
      mean += s.p[row + j] * dp[j];
      const weight = s.scale[h] * s.p[row + j], to = (j * G + g) * D;
      for (let d = 0; d < D; d++) dv[to + d] += weight * scaled[at + d];
    }

    for (let j = first; j <= i; j++) {
      // p_i = softmax(scores_i)
      const dscore = s.p[row + j] * (dp[j] - mean), from = (j * G + g) * D;
      dscores[row + j] = dscore;

      // scores_ij = s q_i . k_j + bias
      for (let d = 0; d < D; d++) {
        dq[at + d] += scale * dscore * s.k[from + d];
        dk[from + d] += scale * dscore * s.q[at + d];
      }
    }
  }
  scoreBiasBackward(model, dscores, T, N, gradients);
  Object.assign(seen, { dscores, dq, dk, dv });

  // q = heads(x W_Q + b_Q),  k = heads(x W_K + b_K),  v = x W_V + b_V
  const dxQ = headsBackward(part.query, part.queryNorm, part.rotary, dq, x, T, H, D, s.q0, s.qStats,
      gradients);
  const dxK = headsBackward(part.key, part.keyNorm, part.rotary, dk, x, T, G, D, s.k0, s.kStats,
      gradients);
  const dxV = linearBackward(dv, x, T, part.value.weight, part.value.bias, gradients);
  return added(added(dxQ, dxK), dxV);
}

// y = rotate(norm(x W + b))
function headsBackward(map, norm, rotary, dy, x, T, n, D, raw, stats, gradients) {
  let draw = dy.slice();
  rotate(rotary, draw, 0, T, n, D, -1);
  if (norm) draw = normBackward(norm, draw, raw, stats, T * n, gradients);
  return linearBackward(draw, x, T, map.weight, map.bias, gradients);
}
