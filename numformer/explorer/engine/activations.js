// The activations of feed-forwards: the number and its derivative.

const ROOT = Math.sqrt(2 / Math.PI), CUBIC = 0.044715 * ROOT, QUICK = 1.702;

const sigmoid = (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));

// erfc(x) / 2 for x >= 0: a series near 0, a continued fraction further out
// (Abramowitz and Stegun 1964, 7.1.6 and 7.1.14)
function halfErfc(x) {
  if (x < 2.5) {
    let term = x, sum = x;
    for (let n = 1; term > 1e-17 * sum; n++) {
      term *= 2 * x * x / (2 * n + 1);
      sum += term;
    }
    return 0.5 - Math.exp(-x * x) / Math.sqrt(Math.PI) * sum;
  }
  let tail = 0;
  for (let n = 60; n >= 1; n--) tail = n / 2 / (x + tail);
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + tail) / 2;
}

// Phi(x), the probability that a standard normal variable is below x
const below = (x) => (x < 0 ? halfErfc(-x * Math.SQRT1_2) : 1 - halfErfc(x * Math.SQRT1_2));

// y = x sigmoid(beta x)
const swish = (beta) => [
  (x) => x * sigmoid(beta * x),
  (x) => { const s = sigmoid(beta * x); return s + beta * x * s * (1 - s); },
];

// name: [f, f']
const ACTIVATIONS = {
  relu: [(x) => (x > 0 ? x : 0), (x) => (x > 0 ? 1 : 0)],
  relu_squared: [(x) => (x > 0 ? x * x : 0), (x) => (x > 0 ? 2 * x : 0)],
  // y = x Phi(x)
  gelu: [
    (x) => x * below(x),
    (x) => below(x) + x * Math.exp(-0.5 * x * x) / Math.sqrt(2 * Math.PI),
  ],
  // y = x (1 + t) / 2,  t = tanh(u),  u = sqrt(2 / pi) (x + 0.044715 x^3)
  gelu_tanh: [
    (x) => 0.5 * x * (1 + Math.tanh(x * (ROOT + CUBIC * x * x))),
    (x) => {
      const t = Math.tanh(x * (ROOT + CUBIC * x * x)), bend = 1 - t * t;
      return 0.5 * (1 + t + (bend === 0 ? 0 : x * bend * (ROOT + 3 * CUBIC * x * x)));
    },
  ],
  silu: swish(1),
  quick_gelu: swish(QUICK),
};
