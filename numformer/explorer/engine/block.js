// A block: residual branches with attention and with a feed-forward, in any order of the norm.

// y = branch2(branch1(x)), or in parallel y = x + f(norm1(x)) + g(norm2(x))
function blockForward(model, block, x, saved, from, to, y) {
  const { branch1, branch2, attention, feedforward } = saved, parallel = model.config.parallel;
  const attend = (n, b) => attentionForward(model, block.attention, n, attention, from, to, b);
  const feed = (n, b) => feedforwardForward(model, block.feedforward, n, feedforward, from, to, b);
  branchForward(model, block.norm1, block.outputNorm1, attend, x, x, branch1, from, to);
  const h = branch1.sum;                                                // (T, C)
  branchForward(model, block.norm2, block.outputNorm2, feed, parallel ? x : h, h, branch2, from,
      to);
  const C = model.config.width;
  y.set(branch2.sum.subarray(from * C, to * C), from * C);
}

// pre: sum = onto + f(norm(x)); post: sum = norm(onto + f(x)); sandwich: onto + norm_2(f(norm(x)))
function branchForward(model, norm, outputNorm, f, x, onto, s, from, to) {
  const C = model.config.width, post = model.config.order === "post";
  let n = x;
  if (!post && norm) normForward(norm, x, from, to, n = s.n, s.stats);
  f(n, s.b);
  let update = s.b;
  if (outputNorm) normForward(outputNorm, s.b, from, to, update = s.update, s.bStats);
  const sum = post ? s.n : s.sum;                                       // before the norm of post
  for (let k = from * C; k < to * C; k++) sum[k] = onto[k] + update[k];
  if (post) normForward(norm, s.n, from, to, s.sum, s.stats);
}

// The gradient of `blockForward` in rows 0 .. T - 1; `seen` is for `attentionBackward`
function blockBackward(model, block, dy, x, saved, T, gradients, seen) {
  const { branch1, branch2 } = saved, parallel = model.config.parallel;
  const attend = (db, n) => attentionBackward(model, block.attention, db, n, saved.attention, T,
      gradients, seen);
  const feed = (db, n) => feedforwardBackward(model, block.feedforward, db, n, saved.feedforward, T,
      gradients);

  // y = h + g(parallel ? x : h)
  const second = branchBackward(model, block.norm2, block.outputNorm2, feed, dy,
      parallel ? x : branch1.sum, branch2, T, gradients);
  const dh = parallel ? second.donto : added(second.donto, second.dx);

  // h = x + f(x)
  const first = branchBackward(model, block.norm1, block.outputNorm1, attend, dh, x, branch1, T,
      gradients);
  const dx = added(first.donto, first.dx);
  return parallel ? added(dx, second.dx) : dx;
}

function branchBackward(model, norm, outputNorm, fBackward, dy, x, s, T, gradients) {
  const post = model.config.order === "post";

  // post: sum = norm(onto + update)
  const donto = post ? normBackward(norm, dy, s.n, s.stats, T, gradients) : dy;

  // sandwich: update = norm_2(b)
  const db = outputNorm ? normBackward(outputNorm, donto, s.b, s.bStats, T, gradients) : donto;

  // b = f(n)
  const dn = fBackward(db, post || !norm ? x : s.n);

  // pre and sandwich: n = norm(x)
  const dx = post || !norm ? dn : normBackward(norm, dn, x, s.stats, T, gradients);
  return { donto, dx };
}
