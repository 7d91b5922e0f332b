// Sampling with temperature, top-k and top-p, as in numformer.generation.sampling.

// Probabilities p (V,) from which a token is sampled; at temperature 0 the largest logit has all.
function samplingProbabilities(logits, temperature, topK, topP) {
  const order = [...logits.keys()].sort((a, b) => logits[b] - logits[a] || a - b);
  const p = new Float64Array(logits.length);
  if (temperature === 0) { p[order[0]] = 1; return p; }
  const kept = order.slice(0, topK || order.length), top = logits[order[0]];
  const weights = kept.map((v) => Math.exp((logits[v] - top) / temperature));
  const all = weights.reduce((a, b) => a + b, 0);
  // the sums are rounded: they may lack 4 ulp of float32, the precision of the logits
  const enough = topP === 1 ? 2 : topP - Math.max(4 * 2 ** -23, kept.length * 2 ** -52);
  let sum = 0, n = 0;
  while (n < kept.length && (n === 0 || sum < enough)) sum += weights[n++] / all;
  for (let k = 0; k < n; k++) p[kept[k]] = weights[k] / all / sum;
  return p;
}

function sampleToken(p, uniform) {
  let sum = 0, last = 0;
  for (let v = 0; v < p.length; v++) {
    if (p[v] === 0) continue;
    sum += p[v];
    last = v;
    if (uniform < sum) return v;
  }
  return last;
}

// Numbers in [0, 1) from a seed: a counter through the mixing function of 32 bits of
// Steele, Lea, Flood (2014), "Fast Splittable Pseudorandom Number Generators", with the constants
// of MurmurHash3
function generatorOf(seed) {
  let counter = seed >>> 0;
  return () => {
    counter = (counter + 0x9e3779b9) >>> 0;
    let z = counter;
    z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
    z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
    return ((z ^ (z >>> 16)) >>> 0) / 2 ** 32;
  };
}

// The first token that is read of so many: when the context is full, its older half is dropped
function contextStart(length, capacity) {
  if (length <= capacity) return 0;
  const half = Math.max(Math.floor(capacity / 2), 1);
  return half * Math.ceil((length - capacity) / half);
}
