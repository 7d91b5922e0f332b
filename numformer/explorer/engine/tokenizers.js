// Tokenizers: characters, or bytes with learned merges. Each has encode and decode.

function tokenizerOf(packed) {
  return packed.kind === "characters" ? characterTokenizer(packed) : bytePairTokenizer(packed);
}

function characterTokenizer({ special, characters }) {
  const signs = [...characters], ids = new Map(signs.map((c, k) => [c, special.length + k]));
  return {
    // {ids, unknown}: characters outside of the vocabulary are left out
    encode(text) {
      const all = [...text];
      return { ids: all.filter((c) => ids.has(c)).map((c) => ids.get(c)),
          unknown: [...new Set(all.filter((c) => !ids.has(c)))] };
    },
    decode: (tokens) => tokens.map((id) => special[id] || signs[id - special.length]).join(""),
  };
}

// Runs of letters, digits or other marks with the space before them, or of white space without its
// last space if a word follows; at most 64 bytes. Bytes are the characters U+0000 .. U+00FF here.
const WORD = new RegExp(" ?[A-Za-z\\x80-\\xff]{1,63}| ?[0-9]{1,63}"
    + "| ?[^A-Za-z0-9\\x80-\\xff\\t\\n\\v\\f\\r ]{1,63}"
    + "|[\\t\\n\\v\\f\\r ]{1,64}(?= [^\\t\\n\\v\\f\\r ])|[\\t\\n\\v\\f\\r ]{1,64}", "g");

function bytePairTokenizer({ special, merges }) {
  const first = special.length, rank = new Map(merges.map(([a, b], k) => [a + "," + b, 256 + k]));
  const bytesOfToken = [...Array(256).keys()].map((byte) => [byte]);
  for (const [a, b] of merges) bytesOfToken.push([...bytesOfToken[a], ...bytesOfToken[b]]);

  // the earliest learned merge is applied first, everywhere in the word
  function merged(word) {
    let tokens = [...word].map((c) => c.charCodeAt(0));
    for (;;) {
      let best = Infinity;
      for (let k = 0; k + 1 < tokens.length; k++) {
        best = Math.min(best, rank.get(tokens[k] + "," + tokens[k + 1]) ?? Infinity);
      }
      if (best === Infinity) return tokens;
      const next = [], [a, b] = merges[best - 256];
      for (let k = 0; k < tokens.length; k++) {
        const pair = tokens[k] === a && tokens[k + 1] === b;
        next.push(pair ? best : tokens[k]);
        if (pair) k++;
      }
      tokens = next;
    }
  }

  return {
    encode(text) {
      const bytes = [...new TextEncoder().encode(text)].map((b) => String.fromCharCode(b)).join("");
      const words = bytes.match(WORD) || [];
      return { ids: words.flatMap(merged).map((token) => first + token), unknown: [] };
    },
    decode(tokens) {
      const bytes = tokens.flatMap((id) => (id < first ? [...new TextEncoder().encode(special[id])]
          : bytesOfToken[id - first]));
      return new TextDecoder().decode(Uint8Array.from(bytes));
    },
  };
}
