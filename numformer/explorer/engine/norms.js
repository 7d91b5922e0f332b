// LayerNorm and RMSNorm of rows, forward and backward.

// A norm of width C. gamma = 1 + weight with an offset, as in Gemma.
function normOf(tensors, name, config) {
  const weight = tensors[name + ".weight"];
  if (!weight) return null;                                             // the identity
  const bias = tensors[name + ".bias"] || null, width = weight.data.length;
  const gamma = config.unitOffset ? weight.data.map((w) => 1 + w) : weight.data;
  return { weight, bias, gamma, width, epsilon: config.epsilon,
      centred: config.norm === "layer_norm" };
}

// The RMSNorm of queries or keys, over the D coordinates of a head
function headNormOf(tensors, name, config) {
  const norm = normOf(tensors, name, config);
  return norm && Object.assign(norm, { centred: false });
}

// y = gamma * x_hat + beta in rows from .. to - 1; saves (mean, 1 / deviation) of each row
function normForward(norm, x, from, to, y, stats) {
  const C = norm.width;
  for (let i = from; i < to; i++) {
    const at = i * C;
    let mean = 0, square = 0;
    if (norm.centred) {
      for (let c = 0; c < C; c++) mean += x[at + c];
      mean /= C;
    }
    for (let c = 0; c < C; c++) square += (x[at + c] - mean) * (x[at + c] - mean);
    const r = 1 / Math.sqrt(square / C + norm.epsilon);
    for (let c = 0; c < C; c++) {
      y[at + c] = norm.gamma[c] * (x[at + c] - mean) * r + (norm.bias ? norm.bias.data[c] : 0);
    }
    stats[2 * i] = mean;
    stats[2 * i + 1] = r;
  }
}

// The gradient of `normForward` in rows 0 .. T - 1: returns dx, adds to those of weight and bias.
function normBackward(norm, dy, x, stats, T, gradients) {
  const C = norm.width, dx = new Float32Array(T * C), dweight = new Float32Array(C);
  for (let i = 0; i < T; i++) {
    const at = i * C, mean = stats[2 * i], r = stats[2 * i + 1];
    let sum = 0, along = 0;
    for (let c = 0; c < C; c++) {
      const xHat = (x[at + c] - mean) * r;

      // y = gamma * x_hat + beta
      dweight[c] += dy[at + c] * xHat;
      const dxHat = dy[at + c] * norm.gamma[c];
      sum += dxHat;
      along += dxHat * xHat;
    }

    // x_hat = (x - mean(x)) * r(x)
    const through = norm.centred ? sum / C : 0;
    for (let c = 0; c < C; c++) {
      const xHat = (x[at + c] - mean) * r;
      dx[at + c] = r * (dy[at + c] * norm.gamma[c] - through - xHat * along / C);
    }
  }
  accumulate(gradients, norm.weight, dweight);
  if (norm.bias) accumulate(gradients, norm.bias, columnSums(dy, T, C));
  return dx;
}
