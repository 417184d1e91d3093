// A trained text classifier: a bidirectional LSTM, a pooling, a linear layer. It says what it thinks of a
// text, how much each state moves its loss (backpropagation), and which windows of words matter.
// Letters: T words, E units of a word's vector, H units of a state in one direction, D = 2H.
// It is given to a Web Worker as text, see text.js, and uses nothing from outside.
"use strict";
globalThis.whenpoolTryIt ??= {};

whenpoolTryIt.model = function () {
  const UNKNOWN = 0;
  const PADDING = 1;
  const MIDDLE = 81; // the character of 0, see lib/paper/pages/try_it.py
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));

  // A matrix of the file: a scale for each row, a character for each value; "#" is a backslash.
  function unpack({ scales, values }) {
    const columns = values.length / scales.length;
    const data = new Float64Array(values.length);
    for (let place = 0; place < data.length; place++) {
      const code = values.charCodeAt(place);
      data[place] = ((code === 35 ? 92 : code) - MIDDLE) * scales[Math.floor(place / columns)];
    }
    return { data, columns };
  }

  // What all models of a file share: their first vectors and the words' numbers.
  function vocabulary(file) {
    const numbers = new Map(file.words.split(" ").map((word, number) => [word, number]));
    const vectors = unpack(file.matrices[file.vectors]);
    return { vectors, numberOf: (word) => numbers.get(word) ?? UNKNOWN };
  }

  // A reader's own model, from the text of model.json and the bytes of model.safetensors, which
  // `whenpool.save_checkpoint` writes: in the form of a file, with what it shares. Throws what is wrong with it.
  function checkpoint(json, bytes) {
    const { model, classes, vocabulary: words, about } = JSON.parse(json);
    if (!model || !words) throw new Error("model.json is not of a whenpool checkpoint");
    if (model.cell !== "lstm" || model.layers !== 1 || !model.bidirectional || !model.masked || !POOLINGS[model.pooling]) {
      throw new Error("this page runs bidirectional LSTMs of one layer, with one of the five poolings and padding masked");
    }
    const start = 8 + Number(new DataView(bytes).getBigUint64(0, true)); // behind the header
    const state = {};
    for (const [name, { dtype, shape, data_offsets: ends }] of Object.entries(JSON.parse(new TextDecoder().decode(bytes.slice(8, start))))) {
      if (name === "__metadata__") continue;
      if (dtype !== "F32") throw new Error(`${name} is stored as ${dtype}, not as F32`);
      const data = Float64Array.from(new Float32Array(bytes.slice(start + ends[0], start + ends[1])));
      state[name] = shape.length > 1 ? { data, columns: shape[1] } : [...data];
    }
    const { data, columns } = state["classifier.weight"];
    state["classifier.weight"] = classes.map((_, row) => data.slice(row * columns, (row + 1) * columns));
    const numbers = new Map(words.map((word, number) => [word, number]));
    const shared = { vectors: state["embedding.weight"], numberOf: (word) => numbers.get(word) ?? UNKNOWN };
    const made = new Model({ models: { own: { pooling: model.pooling, state } } }, "own", shared);
    return { model: made, numberOf: shared.numberOf, classes, pooling: model.pooling, accuracy: about?.test_accuracy };
  }

  // Each pooling: T states of D units -> the text's embedding, the weights of words or null, and `back`,
  // which turns the loss's gradient at the embedding into that at each state.
  const POOLINGS = {
    last(S, T, D) {
      const [H, end] = [D / 2, (T - 1) * D];
      const embedding = new Float64Array(D);
      for (let u = 0; u < D; u++) embedding[u] = S[u < H ? end + u : u];
      const back = (grad) => {
        const found = new Float64Array(T * D);
        for (let u = 0; u < D; u++) found[u < H ? end + u : u] = grad[u];
        return found;
      };
      return { embedding, weights: null, back };
    },
    mean(S, T, D) {
      const weights = new Float64Array(T).fill(1 / T);
      const back = (grad) => Float64Array.from({ length: T * D }, (_, place) => grad[place % D] / T);
      return { embedding: weighted(S, weights, D), weights, back };
    },
    max(S, T, D) {
      const at = largest(S, T, D);
      const back = (grad) => {
        const found = new Float64Array(T * D);
        for (let u = 0; u < D; u++) found[at[u] * D + u] = grad[u];
        return found;
      };
      return { embedding: Float64Array.from(at, (t, u) => S[t * D + u]), weights: null, back };
    },
    attention(S, T, D, query) {
      const scores = new Float64Array(T);
      for (let t = 0; t < T; t++) scores[t] = dot(S, t * D, query, 0, D);
      const weights = softmax(scores);
      const embedding = weighted(S, weights, D);
      const back = (grad) => {
        const found = new Float64Array(T * D);
        for (let t = 0; t < T; t++) {
          const score = weights[t] * (dot(S, t * D, grad, 0, D) - dot(embedding, 0, grad, 0, D));
          for (let u = 0; u < D; u++) found[t * D + u] = weights[t] * grad[u] + score * query[u];
        }
        return found;
      };
      return { embedding, weights, back };
    },
    max_attention(S, T, D) {
      const at = largest(S, T, D);
      const query = Float64Array.from(at, (t, u) => S[t * D + u]);
      const [norms, scores] = [new Float64Array(T), new Float64Array(T)];
      for (let t = 0; t < T; t++) {
        norms[t] = Math.sqrt(dot(S, t * D, S, t * D, D)) || Number.MIN_VALUE;
        scores[t] = dot(S, t * D, query, 0, D) / norms[t];
      }
      const weights = softmax(scores);
      const embedding = weighted(S, weights, D);
      const back = (grad) => {
        const [found, atQuery] = [new Float64Array(T * D), new Float64Array(D)];
        for (let t = 0; t < T; t++) {
          const score = weights[t] * (dot(S, t * D, grad, 0, D) - dot(embedding, 0, grad, 0, D));
          for (let u = 0; u < D; u++) {
            const unit = S[t * D + u] / norms[t];
            found[t * D + u] = weights[t] * grad[u] + (score * (query[u] - scores[t] * unit)) / norms[t];
            atQuery[u] += score * unit;
          }
        }
        for (let u = 0; u < D; u++) found[at[u] * D + u] += atQuery[u];
        return found;
      };
      return { embedding, weights, back };
    },
  };

  // Four sums at once, since each addition would wait for the one before.
  function dot(a, from, b, start, count) {
    let [one, two, three, four, u] = [0, 0, 0, 0, 0];
    for (; u + 3 < count; u += 4) {
      one += a[from + u] * b[start + u];
      two += a[from + u + 1] * b[start + u + 1];
      three += a[from + u + 2] * b[start + u + 2];
      four += a[from + u + 3] * b[start + u + 3];
    }
    for (; u < count; u++) one += a[from + u] * b[start + u];
    return one + two + three + four;
  }
  function weighted(S, weights, D) {
    const sum = new Float64Array(D);
    weights.forEach((weight, t) => { for (let u = 0; u < D; u++) sum[u] += weight * S[t * D + u]; });
    return sum;
  }
  // The word at which each unit is largest.
  function largest(S, T, D) {
    const at = new Int32Array(D);
    for (let t = 1; t < T; t++) {
      for (let u = 0; u < D; u++) if (S[t * D + u] > S[at[u] * D + u]) at[u] = t;
    }
    return at;
  }
  function softmax(scores) {
    const top = scores.reduce((a, b) => Math.max(a, b));
    const powers = scores.map((score) => Math.exp(score - top));
    const sum = powers.reduce((a, b) => a + b);
    return powers.map((power) => power / sum);
  }

  class Model {
    constructor(file, name, { vectors }) {
      const { pooling, state, change = [] } = file.models[name];
      const matrix = (known) => (typeof known === "string" ? unpack(file.matrices[known]) : known);
      this.pooling = POOLINGS[pooling];
      this.query = state["pooling.query"];
      this.classifier = state["classifier.weight"];
      this.bias = state["classifier.bias"];
      this.vectors = vectors;
      this.change = change.map(matrix); // of rank R: (R, V) and (R, E)
      this.directions = ["encoder.layers.0.0", "encoder.layers.0.1"].map((layer) => ({
        input: matrix(state[`${layer}.weight_ih_l0`]),
        recurrent: matrix(state[`${layer}.weight_hh_l0`]),
        bias: state[`${layer}.bias_ih_l0`].map((bias, row) => bias + state[`${layer}.bias_hh_l0`][row]),
        known: new Map(), // what each word adds to the gates
      }));
      this.H = this.directions[0].recurrent.columns;
    }

    vector(word) {
      const E = this.vectors.columns;
      const vector = this.vectors.data.slice(word * E, (word + 1) * E);
      if (!this.change.length) return vector;
      const [along, ways] = this.change;
      for (let r = 0; r * E < ways.data.length; r++) {
        const far = along.data[r * along.columns + word];
        for (let e = 0; e < E; e++) vector[e] += far * ways.data[r * E + e];
      }
      return vector;
    }

    // W x + b of all gates.
    entering(direction, word) {
      let found = direction.known.get(word);
      if (!found) {
        const [vector, { data, columns }] = [this.vector(word), direction.input];
        found = Float64Array.from(direction.bias, (bias, row) => bias + dot(data, row * columns, vector, 0, columns));
        direction.known.set(word, found);
      }
      return found;
    }

    // One direction over T words in its order of reading: states and cells (T, H) and gates (T, 4H) in
    // torch's order, input, forget, candidate, output. With `before`, an earlier course, the words ahead of
    // `first` are taken from there.
    run(direction, words, before = null, first = 0) {
      const [H, T, weights] = [this.H, words.length, direction.recurrent.data];
      const h = new Float64Array(T * H);
      const c = new Float64Array(T * H);
      const gates = new Float64Array(T * 4 * H);
      if (before) {
        h.set(before.h.subarray(0, first * H));
        c.set(before.c.subarray(0, first * H));
      }
      for (let t = first; t < T; t++) {
        const entering = this.entering(direction, words[t]);
        const [now, last, at] = [t * H, (t - 1) * H, t * 4 * H];
        for (let row = 0; row < 4 * H; row++) {
          const sum = entering[row] + (t ? dot(weights, row * H, h, last, H) : 0);
          gates[at + row] = row >= 2 * H && row < 3 * H ? Math.tanh(sum) : sigmoid(sum);
        }
        for (let u = 0; u < H; u++) {
          const [i, f, g, o] = [gates[at + u], gates[at + H + u], gates[at + 2 * H + u], gates[at + 3 * H + u]];
          c[now + u] = (t ? f * c[last + u] : 0) + i * g;
          h[now + u] = o * Math.tanh(c[now + u]);
        }
      }
      return { h, c, gates };
    }

    // What is read of a text: the states of both directions, and what the model says. With `before`, an
    // earlier reading, only words from `from` to `to` differ.
    read(words, before = null, from = 0, to = words.length) {
      const [H, T] = [this.H, words.length];
      const reversed = words.slice().reverse();
      const courses = [
        this.run(this.directions[0], words, before?.courses[0], from),
        this.run(this.directions[1], reversed, before?.courses[1], T - to),
      ];
      const S = new Float64Array(T * 2 * H);
      for (let t = 0; t < T; t++) {
        S.set(courses[0].h.subarray(t * H, (t + 1) * H), t * 2 * H);
        S.set(courses[1].h.subarray((T - 1 - t) * H, (T - t) * H), t * 2 * H + H);
      }
      const pooled = this.pooling(S, T, 2 * H, this.query);
      const logits = this.bias.map((bias, k) => bias + dot(this.classifier[k], 0, pooled.embedding, 0, 2 * H));
      return { courses, pooled, logits, weights: pooled.weights, probabilities: softmax(logits) };
    }

    // The norm of the loss's whole gradient at each state, (T,); the loss is the cross-entropy of a class.
    gradientNorms(words, label) {
      const [H, T] = [this.H, words.length];
      const { courses, pooled, probabilities } = this.read(words);
      const atEmbedding = new Float64Array(2 * H);
      this.classifier.forEach((row, k) => {
        const atLogit = probabilities[k] - (k === label ? 1 : 0);
        for (let u = 0; u < 2 * H; u++) atEmbedding[u] += atLogit * row[u];
      });
      const direct = pooled.back(atEmbedding);
      const norms = new Float64Array(T);
      this.directions.forEach((direction, half) => {
        const squares = this.backwards(direction, courses[half], T, (t, u) => {
          const place = half ? T - 1 - t : t; // the second half has read the text in reverse
          return direct[place * 2 * H + half * H + u];
        });
        for (let t = 0; t < T; t++) norms[half ? T - 1 - t : t] += squares[t];
      });
      return norms.map(Math.sqrt);
    }

    // Backpropagation through time in one direction: the squared norm of the gradient at each state.
    backwards(direction, { c, gates }, T, direct) {
      const [H, weights] = [this.H, direction.recurrent.data];
      const squares = new Float64Array(T);
      const atCell = new Float64Array(H);
      const atGates = new Float64Array(4 * H);
      for (let t = T - 1; t >= 0; t--) {
        const atState = Float64Array.from({ length: H }, (_, u) => direct(t, u));
        if (t < T - 1) {
          for (let row = 0; row < 4 * H; row++) {
            const grad = atGates[row];
            for (let u = 0; u < H; u++) atState[u] += grad * weights[row * H + u];
          }
        }
        squares[t] = dot(atState, 0, atState, 0, H);
        const at = t * 4 * H;
        for (let u = 0; u < H; u++) {
          const [i, f, g, o] = [gates[at + u], gates[at + H + u], gates[at + 2 * H + u], gates[at + 3 * H + u]];
          const squashed = Math.tanh(c[t * H + u]);
          const grad = atCell[u] + atState[u] * o * (1 - squashed * squashed);
          atGates[u] = grad * g * i * (1 - i);
          atGates[H + u] = t ? grad * c[(t - 1) * H + u] * f * (1 - f) : 0;
          atGates[2 * H + u] = grad * i * (1 - g * g);
          atGates[3 * H + u] = atState[u] * squashed * o * (1 - o);
          atCell[u] = grad * f;
        }
      }
      return squares;
    }

    // How much log P(label) changes when a window of k words is replaced by the unknown word, one window
    // after the other; words behind `count` are padding.
    *importance(words, count, label, k = 5) {
      const plain = this.read(words);
      const surprise = ({ logits }) => {
        const top = Math.max(...logits);
        return top + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - top), 0)) - logits[label];
      };
      for (let from = 0; from + k <= count; from += k) {
        const changed = words.slice().fill(UNKNOWN, from, from + k);
        yield Math.abs(surprise(this.read(changed, plain, from, from + k)) - surprise(plain));
      }
    }
  }

  return { Model, vocabulary, checkpoint, PADDING };
};
