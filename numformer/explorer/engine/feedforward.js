// Feed-forwards, plain, gated, or a mixture of experts: forward and backward.

function feedforwardOf(tensors, name, config) {
  const part = (each) => tensors[name + "." + each] || null;
  const map = (each) => ({ weight: part(each + ".weight"), bias: part(each + ".bias") });
  if (tensors[name + ".router.weight"]) {
    const experts = [];
    while (tensors[name + ".experts." + experts.length + ".hidden.weight"]) {
      experts.push(feedforwardOf(tensors, name + ".experts." + experts.length,
          Object.assign({}, config, { activation: config.expertActivation })));
    }
    return { router: map("router"), experts };
  }
  const hidden = map("hidden");
  return { gate: tensors[name + ".gate.weight"] ? map("gate") : null, hidden, output: map("output"),
      f: ACTIVATIONS[config.activation], width: hidden.weight.shape[1] };
}

function feedforwardSaved(part, config, N) {
  if (part.experts) {
    return { gates: Array(N), logits: new Float32Array(N * part.experts.length),
        sent: Array(N) };
  }
  const rows = () => new Float32Array(N * part.width);
  return { g: part.gate && rows(), h: rows(), a: rows() };
}

// y = f(x W_1 + b_1) W_2 + b_2, or (f(x W_g + b_g) * (x W_1 + b_1)) W_2 + b_2
function feedforwardForward(model, part, x, s, from, to, y) {
  if (part.experts) { expertsForward(model, part, x, s, from, to, y); return; }
  const [f] = part.f, F = part.width;
  linear(x, from, to, part.hidden.weight, part.hidden.bias, s.h);       // (T, F)
  if (part.gate) linear(x, from, to, part.gate.weight, part.gate.bias, s.g);
  for (let k = from * F; k < to * F; k++) s.a[k] = part.gate ? f(s.g[k]) * s.h[k] : f(s.h[k]);
  linear(s.a, from, to, part.output.weight, part.output.bias, y);       // (T, C)
}

function feedforwardBackward(model, part, dy, x, s, T, gradients) {
  if (part.experts) return expertsBackward(model, part, dy, x, s, T, gradients);
  const [f, slope] = part.f, F = part.width;

  // y = a W_2 + b_2
  const da = linearBackward(dy, s.a, T, part.output.weight, part.output.bias, gradients);
  const dh = new Float32Array(T * F);
  if (!part.gate) {
    // a = f(h)
    for (let k = 0; k < T * F; k++) dh[k] = da[k] * slope(s.h[k]);
    return linearBackward(dh, x, T, part.hidden.weight, part.hidden.bias, gradients);
  }

  // a = f(g) * h
  const dg = new Float32Array(T * F);
  for (let k = 0; k < T * F; k++) {
    dh[k] = da[k] * f(s.g[k]);
    dg[k] = da[k] * s.h[k] * slope(s.g[k]);
  }

  // g = x W_g + b_g,  h = x W_1 + b_1
  return added(linearBackward(dg, x, T, part.gate.weight, part.gate.bias, gradients),
      linearBackward(dh, x, T, part.hidden.weight, part.hidden.bias, gradients));
}

// ---- experts ----------------------------------------------------------------------------------

// y_t = sum_e gate_te expert_e(x_t) over the k experts with the largest logits x_t W_r
function expertsForward(model, part, x, s, from, to, y) {
  const { width: C, expertsPerToken: k, gatesOver } = model.config, E = part.experts.length;
  linear(x, from, to, part.router.weight, null, s.logits);              // (T, E)
  for (let t = from; t < to; t++) {
    const logits = [...s.logits.subarray(t * E, (t + 1) * E)];
    const order = logits.map((_, e) => e).sort((a, b) => logits[b] - logits[a] || a - b);
    const chosen = order.slice(0, k), over = gatesOver === "all" ? order : chosen;
    const top = logits[order[0]], sum = over.reduce((z, e) => z + Math.exp(logits[e] - top), 0);
    s.gates[t] = chosen.map((e) => ({ e, gate: Math.exp(logits[e] - top) / sum }));
    s.sent[t] = x.slice(t * C, (t + 1) * C);
    y.fill(0, t * C, (t + 1) * C);
    for (const each of s.gates[t]) {
      each.saved = feedforwardSaved(part.experts[each.e], model.config, 1);
      each.y = new Float32Array(C);
      feedforwardForward(model, part.experts[each.e], s.sent[t], each.saved, 0, 1, each.y);
      for (let c = 0; c < C; c++) y[t * C + c] += each.gate * each.y[c];
    }
  }
}

function expertsBackward(model, part, dy, x, s, T, gradients) {
  const { width: C, gatesOver } = model.config, E = part.experts.length;
  const dx = new Float32Array(T * C), dlogits = new Float32Array(T * E);
  for (let t = 0; t < T; t++) {
    const dyt = dy.subarray(t * C, (t + 1) * C);
    let mean = 0;
    for (const each of s.gates[t]) {
      // y = sum_e gate_e expert_e(x)
      each.dgate = dot(dyt, 0, each.y, 0, C);
      mean += each.gate * each.dgate;
      const dexpert = dyt.map((d) => each.gate * d);
      const part_dx = feedforwardBackward(model, part.experts[each.e], dexpert, s.sent[t],
          each.saved, 1, gradients);
      for (let c = 0; c < C; c++) dx[t * C + c] += part_dx[c];
    }

    // gates = softmax(logits), over the chosen experts or over all
    const top = Math.max(...s.logits.subarray(t * E, (t + 1) * E));
    if (gatesOver === "all") {
      let sum = 0;
      for (let e = 0; e < E; e++) sum += Math.exp(s.logits[t * E + e] - top);
      for (let e = 0; e < E; e++) {
        dlogits[t * E + e] = -Math.exp(s.logits[t * E + e] - top) / sum * mean;
      }
      for (const each of s.gates[t]) dlogits[t * E + each.e] += each.gate * each.dgate;
    } else {
      for (const each of s.gates[t]) dlogits[t * E + each.e] = each.gate * (each.dgate - mean);
    }
  }

  // logits = x W_r
  return added(dx, linearBackward(dlogits, x, T, part.router.weight, null, gradients));
}
