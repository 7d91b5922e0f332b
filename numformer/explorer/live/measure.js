// What the page costs on this machine, and its numbers for tests: `numformerPage` in the console.

const median = (x) => [...x].sort((a, b) => a - b)[Math.floor(x.length / 2)];

function timed(work) {
  const began = performance.now();
  work();
  void document.body.offsetHeight;                                      // layout counts, too
  return performance.now() - began;
}

// Milliseconds of a key at the end of n tokens, of one at their beginning (all tokens are computed
// again), of a backward pass; and frames a second while the pointer moves over the tokens.
async function measure(n = 64, rounds = 9) {
  const before = text.value, ids = [], result = {};
  while (ids.length < n) ids.push(...codec.encode(data.live.text).ids);
  ids.length = n;
  const typed = (list) => timed(() => { readIds(list); repaint(); });
  const other = (id) => (id + 1) % model.config.vocabulary;
  const keys = { end: [], beginning: [] };
  for (let k = 0; k < rounds; k++) {
    typed(ids.slice(0, -1));
    keys.end.push(typed(ids));
    ids[0] = other(ids[0]);
    keys.beginning.push(typed(ids));
  }
  for (const [name, times] of Object.entries(keys)) {
    result[name] = { least: Math.min(...times), median: median(times) };
  }
  const several = (work) => {
    const times = [...Array(rounds)].map(() => timed(work));
    return { least: Math.min(...times), median: median(times) };
  };
  result.forward = several(() => { run.T = 0; compute(); });
  result.backward = several(() => backward(model, run, run.T - 1, ids[0]));
  result.point = several(() => { point("query", Math.floor(Math.random() * run.T)); });
  result.frames = await framesWhilePointing(120);
  readText(text.value = before);
  repaint();
  return result;
}

function framesWhilePointing(count) {
  return new Promise((done) => {
    let k = 0, began = 0;
    const frame = (now) => {
      if (k === 0) began = now;
      if (k === count) { done(1000 * count / (now - began)); point(null); return; }
      point("query", k++ % run.T);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}

window.numformerPage = {
  measure, framesWhilePointing, state, live,
  readText(value) { readText(text.value = value); repaint(); },
  scale(l, h, s) { changeHead(l, h, s); refresh(); },
  get run() { return run; }, get model() { return model; },
  lens: () => lens(model, run), backward: (i, id) => backward(model, run, i, id),
  probabilities: (i) => [...softmax(rowOf(run, i))],
  sampled(i, options) { Object.assign(sampling, options); return [...sampled(rowOf(run, i))]; },
  encode: (value) => codec.encode(value).ids, decode: (ids) => codec.decode(ids),
};
