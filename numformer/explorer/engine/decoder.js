// A decoder: embedding, blocks, norm, head; forward with a cache, backward of one prediction.

function buildDecoder(packed) {
  const tensors = unpackTensors(packed), config = packed.config;
  const blocks = [...Array(config.layers).keys()].map((layer) => {
    const name = "blocks." + layer, norm = (each) => normOf(tensors, name + "." + each, config);
    return {
      attention: attentionOf(tensors, name + ".attention", config, layer),
      feedforward: feedforwardOf(tensors, name + ".feedforward", config),
      norm1: norm("norm1"), norm2: norm("norm2"),
      outputNorm1: norm("output_norm1"), outputNorm2: norm("output_norm2"),
    };
  });
  const embedding = tensors["embedding.weight"];
  const model = {
    config, tensors, blocks, embedding, capacity: config.capacity,
    embeddingNorm: normOf(tensors, "embedding_norm", config), norm: normOf(tensors, "norm", config),
    head: { weight: tensors["head.weight"] || embedding, bias: tensors["head.bias"] || null },
    relative: tensors["blocks.0.attention.positions.weight"] || null,
  };
  return model;
}

// What a forward of up to N tokens saves. `T` rows are computed; `ids` are their tokens.
function newRun(model) {
  const { width: C, vocabulary: V, layers } = model.config, N = model.capacity;
  const rows = (n) => new Float32Array(N * n), branch = () => ({ n: rows(C), stats: rows(2),
      b: rows(C), bStats: rows(2), update: rows(C), sum: rows(C) });
  return {
    ids: [], T: 0, embedded: rows(C), embeddedStats: rows(2), stream: [...Array(layers + 1)].map(
        () => rows(C)), features: rows(C), stats: rows(2), logits: rows(V),
    blocks: model.blocks.map((block) => ({
      attention: attentionSaved(model.config, N),
      feedforward: feedforwardSaved(block.feedforward, model.config, N),
      branch1: branch(), branch2: branch(),
    })),
  };
}

// Compute logits of ids; rows of a common beginning stay as they were. Returns the rows computed.
function forward(model, run, ids) {
  let from = 0;
  while (from < run.T && from < ids.length && run.ids[from] === ids[from]) from++;
  const to = run.T = ids.length, { width: C, embeddingScale } = model.config, x = run.embedded;
  run.ids = [...ids];
  for (let t = from; t < to; t++) for (let c = 0; c < C; c++) {
    x[t * C + c] = embeddingScale * model.embedding.data[ids[t] * C + c];
  }
  addPositions(model, x, from, to);                                     // (T, C)
  if (model.embeddingNorm) {
    normForward(model.embeddingNorm, x, from, to, run.stream[0], run.embeddedStats);
  } else run.stream[0].set(x.subarray(from * C, to * C), from * C);
  model.blocks.forEach((block, l) => {
    blockForward(model, block, run.stream[l], run.blocks[l], from, to, run.stream[l + 1]);
  });
  logitsOf(model, run.stream[model.blocks.length], from, to, run.features, run.stats, run.logits);
  return to - from;
}

// logits = cap(norm(x) W' + b)
function logitsOf(model, x, from, to, features, stats, logits) {
  const { width: C, vocabulary: V, logitCap: cap } = model.config, { weight, bias } = model.head;
  if (model.norm) normForward(model.norm, x, from, to, features, stats);
  else features.set(x.subarray(from * C, to * C), from * C);
  product(features, from, to, weight.data, V, C, logits);               // (T, V)
  for (let k = from * V; k < to * V; k++) {
    if (bias) logits[k] += bias.data[k % V];
    if (cap) logits[k] = cap * Math.tanh(logits[k] / cap);
  }
}

// The logit lens: logits (T, V) of the residual stream before the first block and after each.
function lens(model, run) {
  const { width: C, vocabulary: V } = model.config, T = run.T;
  return run.stream.map((x) => {
    const logits = new Float32Array(T * V);
    logitsOf(model, x, 0, T, new Float32Array(T * C), new Float32Array(2 * T), logits);
    return logits;
  });
}

function softmax(logits) {
  let top = -Infinity, sum = 0;
  for (const z of logits) if (z > top) top = z;
  const p = Float64Array.from(logits, (z) => Math.exp(z - top));
  for (const each of p) sum += each;
  return p.map((each) => each / sum);
}

// Scale the output of one head: rows are computed again.
function scaleHead(run, layer, head, scale) {
  run.blocks[layer].attention.scale[head] = scale;
  run.T = 0;
}

// ---- backward ---------------------------------------------------------------------------------

// The gradients of loss = -log p(target) at one position: dlogits (V,), those of each parameter by
// name, of each attention (dscores, dq, dk, dv), and of the residual stream between blocks.
function backward(model, run, position, target) {
  const { width: C, vocabulary: V, logitCap: cap } = model.config, T = position + 1;
  const gradients = {}, attention = [], dstream = Array(model.blocks.length + 1);
  const z = run.logits.subarray(position * V, T * V), p = softmax(z);

  // loss = -log softmax(logits)[target]
  const dlogits = Float32Array.from(p);
  dlogits[target] -= 1;

  // logits = cap tanh(products / cap),  products = features W' + b
  const dproducts = dlogits.map((d, v) => (cap ? d * (1 - (z[v] / cap) ** 2) : d));
  const { weight, bias } = model.head, dW = new Float32Array(V * C), dlast = new Float32Array(C);
  const row = run.features.subarray(position * C, T * C);
  for (let v = 0; v < V; v++) for (let c = 0; c < C; c++) {
    dW[v * C + c] = dproducts[v] * row[c];
    dlast[c] += dproducts[v] * weight.data[v * C + c];
  }
  accumulate(gradients, weight, dW);
  if (bias) accumulate(gradients, bias, dproducts.slice());
  let dx = new Float32Array(T * C);
  dx.set(dlast, position * C);

  // features = norm(x)
  if (model.norm) dx = normBackward(model.norm, dx, run.stream.at(-1), run.stats, T, gradients);
  dstream[model.blocks.length] = dx;

  // x = block(x), L times
  for (let l = model.blocks.length - 1; l >= 0; l--) {
    attention[l] = {};
    dx = blockBackward(model, model.blocks[l], dx, run.stream[l], run.blocks[l], T, gradients,
        attention[l]);
    dstream[l] = dx;
  }

  // x = embedding_norm(scale embedding[ids] + positions)
  if (model.embeddingNorm) {
    dx = normBackward(model.embeddingNorm, dx, run.embedded, run.embeddedStats, T, gradients);
  }
  addPositionsBackward(model, dx, T, gradients);
  const dtable = new Float32Array(V * C);
  for (let t = 0; t < T; t++) for (let c = 0; c < C; c++) {
    dtable[run.ids[t] * C + c] += model.config.embeddingScale * dx[t * C + c];
  }
  accumulate(gradients, model.embedding, dtable);
  const loss = -Math.log(p[target]);
  return { position, target, loss, dlogits, gradients, attention, dstream, dx };
}
