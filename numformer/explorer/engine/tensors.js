// Tensors: the weights of the model from base64, and products of rows with rows.

// ---- weights ----------------------------------------------------------------------------------

function bytesOf(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

// One float16 as a number: sign, 5 bits of exponent, 10 of fraction.
function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;                // subnormal, or 0
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// All 65536 float16 as float32, so that decoding a weight is one look-up.
function halfTable() {
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) table[bits] = fromHalf(bits);
  return table;
}

// {name: {data, shape, transposed}} of a packed state dict
function unpackTensors(packed) {
  const buffer = bytesOf(packed.weights).buffer, tensors = {};
  const table = packed.bits === 16 ? halfTable() : null;
  const stored = table ? new Uint16Array(buffer) : new Float32Array(buffer);
  let at = 0;
  for (const [name, shape] of packed.shapes) {
    const size = shape.reduce((a, b) => a * b, 1), part = stored.subarray(at, at + size);
    at += size;
    const data = table ? Float32Array.from(part, (bits) => table[bits]) : part;
    tensors[name] = { name, data, shape };
    if (shape.length === 2) tensors[name].transposed = transposed(data, shape[0], shape[1]);
  }
  return tensors;
}

// x (n, m) to (m, n)
function transposed(x, n, m) {
  const y = new Float32Array(n * m);
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) y[j * n + i] = x[i * m + j];
  return y;
}

// ---- products ---------------------------------------------------------------------------------

// y_ij = a_i . b_j of rows i in from .. to - 1 of a (., k) and all rows of b (m, k), with y (., m).
// Tiles of 2 x 4 rows: eight sums in registers, so every number that is loaded is used often.
function product(a, from, to, b, m, k, y) {
  const wide = m - m % 4;
  let i = from;
  for (; i + 1 < to; i += 2) {
    const a0 = i * k, a1 = a0 + k;
    for (let j = 0; j < wide; j += 4) {
      const b0 = j * k, b1 = b0 + k, b2 = b1 + k, b3 = b2 + k;
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0, t0 = 0, t1 = 0, t2 = 0, t3 = 0;
      for (let c = 0; c < k; c++) {
        const p = a[a0 + c], q = a[a1 + c];
        const u = b[b0 + c], v = b[b1 + c], w = b[b2 + c], z = b[b3 + c];
        s0 += p * u; s1 += p * v; s2 += p * w; s3 += p * z;
        t0 += q * u; t1 += q * v; t2 += q * w; t3 += q * z;
      }
      const o = i * m + j, r = o + m;
      y[o] = s0; y[o + 1] = s1; y[o + 2] = s2; y[o + 3] = s3;
      y[r] = t0; y[r + 1] = t1; y[r + 2] = t2; y[r + 3] = t3;
    }
    for (let j = wide; j < m; j++) {
      y[i * m + j] = dot(a, a0, b, j * k, k);
      y[(i + 1) * m + j] = dot(a, a1, b, j * k, k);
    }
  }
  if (i < to) for (let j = 0; j < m; j++) y[i * m + j] = dot(a, i * k, b, j * k, k);
}

// The inner product of k numbers of a from i on and of b from j on, in four sums.
function dot(a, i, b, j, k) {
  let s0 = 0, s1 = 0, s2 = 0, s3 = 0, c = 0;
  for (; c + 3 < k; c += 4) {
    s0 += a[i + c] * b[j + c]; s1 += a[i + c + 1] * b[j + c + 1];
    s2 += a[i + c + 2] * b[j + c + 2]; s3 += a[i + c + 3] * b[j + c + 3];
  }
  for (; c < k; c++) s0 += a[i + c] * b[j + c];
  return s0 + s1 + s2 + s3;
}

// ---- linear -----------------------------------------------------------------------------------

// y = x W + b in rows from .. to - 1; W (C, F)
function linear(x, from, to, weight, bias, y) {
  const [C, F] = weight.shape;
  product(x, from, to, weight.transposed, F, C, y);                     // (T, F)
  if (bias) for (let k = from * F; k < to * F; k++) y[k] += bias.data[k % F];
}

// The gradient of `linear` over rows 0 .. T - 1: returns dx, and adds to those of W and b.
function linearBackward(dy, x, T, weight, bias, gradients) {
  const [C, F] = weight.shape, dx = new Float32Array(T * C);

  // y = x W + b
  product(dy, 0, T, weight.data, C, F, dx);                             // dx = dy W'
  const xT = transposed(x.subarray(0, T * C), T, C), dyT = transposed(dy.subarray(0, T * F), T, F);
  const dW = new Float32Array(C * F);
  product(xT, 0, C, dyT, F, T, dW);                                     // dW = x' dy
  accumulate(gradients, weight, dW);
  if (bias) accumulate(gradients, bias, columnSums(dy, T, F));
  return dx;
}

// ---- gradients --------------------------------------------------------------------------------

// Add to the gradient of a parameter: a tied one has several parts.
function accumulate(gradients, parameter, part) {
  const sum = gradients[parameter.name];
  if (!sum) gradients[parameter.name] = part;
  else for (let k = 0; k < sum.length; k++) sum[k] += part[k];
}

function columnSums(x, T, C) {
  const sums = new Float32Array(C);
  for (let i = 0; i < T; i++) for (let c = 0; c < C; c++) sums[c] += x[i * C + c];
  return sums;
}

function added(x, y) {
  const z = new Float32Array(x.length);
  for (let k = 0; k < z.length; k++) z[k] = x[k] + y[k];
  return z;
}
