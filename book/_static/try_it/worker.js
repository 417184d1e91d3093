// What both widgets share, and what answers them from a Web Worker, so that typing never waits for a model. Each
// kind of question is answered for the latest asker alone: a new one ends the answer to the one before.
"use strict";
globalThis.whenpoolTryIt ??= {};

whenpoolTryIt.poolings = { last: "BiLSTM", mean: "MeanPool", max: "MaxPool", attention: "Att", max_attention: "MaxAtt" };
whenpoolTryIt.classes = ["negative", "positive"];
whenpoolTryIt.most = 200; // words of a review

// What a model says by its probability of "positive", which near one half is a guess; and which models say what, by
// pooling.
const GUESS = "a guess";
whenpoolTryIt.verdict = (positive) =>
  Math.abs(positive - 0.5) < 0.055 ? GUESS : whenpoolTryIt.classes[Number(positive > 0.5)];
whenpoolTryIt.answer = (positive) => {
  const guess = whenpoolTryIt.verdict(positive) === GUESS ? `: ${GUESS}` : "";
  return `${Math.round(100 * positive)} % positive${guess}`;
};
whenpoolTryIt.summary = (verdicts) => {
  const { classes, poolings } = whenpoolTryIt;
  const groups = [...classes, GUESS].map((verdict) => [verdict, Object.keys(poolings).filter((one) => verdicts.get(one) === verdict)]);
  const said = groups.filter(([, some]) => some.length);
  return said.map(([verdict, some]) => `${some.map((one) => poolings[one]).join(", ")}: ${verdict}`).join("; ");
};

// Loads a set of models from a script beside the one at the address `near` and starts a worker, which is made of
// functions' text, since a page from disk may not give it files. `hear` has a function for each kind of answer;
// returned is a function that asks, once the models are there. Answers to questions that are not the latest of
// their kind are dropped, and all of a kind after `ask.forget`. The element `state` says how it goes.
whenpoolTryIt.sets = { plain: ["weights.js", "weights"], filler: ["filler_weights.js", "fillerWeights"] };
whenpoolTryIt.start = function (near, hear, state, set = "plain") {
  const [file, name] = whenpoolTryIt.sets[set];
  const { text, model, worker, filler } = whenpoolTryIt;
  const number = {};
  let thread;
  const ask = (task, question) => thread.postMessage({ task, number: ask.forget(task), ...question });
  ask.forget = (task) => (number[task] = (number[task] ?? 0) + 1);
  state.textContent = "Loading the models (2 MB) …";
  const script = Object.assign(document.createElement("script"), { src: new URL(file, near) });
  script.onload = () => {
    const code = `(${worker})(self, (${text})(), (${model})())`;
    thread = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
    thread.onmessage = ({ data }) => { if (data.number === number[data.task]) hear[data.task](data); };
    ask("load", { weights: whenpoolTryIt[name], filler });
  };
  script.onerror = () => { state.textContent = `The models cannot be loaded: the file ${file} is missing beside this page.`; };
  document.head.append(script);
  return ask;
};

whenpoolTryIt.worker = function (scope, { tokenize, compose }, { Model, vocabulary, checkpoint, PADDING }) {
  const models = new Map();
  const latest = {};
  let file, shared, sentences, own; // own: a reader's model

  const modelOf = (name) => {
    if (name === "own") return own.model;
    if (!models.has(name)) models.set(name, new Model(file, name, shared));
    return models.get(name);
  };
  // Numbers of words, and behind them as much padding where it is read.
  const numbers = (words, padded, name) => {
    const found = words.map((name === "own" ? own : shared).numberOf);
    return padded ? [...found, ...found.map(() => PADDING)] : found;
  };
  const positive = (name, words) => modelOf(name).read(words).probabilities[1];

  const verdict = (name, words) => {
    const { probabilities } = modelOf(name).read(words);
    return probabilities.indexOf(Math.max(...probabilities));
  };

  const tasks = {
    *load({ weights, filler }) {
      [file, sentences] = [weights, filler.map(tokenize)];
      shared = vocabulary(file);
      yield {};
    },
    *own({ json, bytes }) {
      try {
        own = checkpoint(json, bytes);
        yield { classes: own.classes, pooling: own.pooling, accuracy: own.accuracy };
      } catch (error) {
        yield { wrong: error.message };
      }
    },
    // What each model says.
    *say({ names, words, padded }) {
      for (const name of names) {
        const { probabilities } = modelOf(name).read(numbers(words, padded, name));
        yield { name, positive: probabilities[1], probabilities: [...probabilities] };
      }
      yield { unknown: words.map((word) => shared.numberOf(word) === 0) };
    },
    // What one model does with each word.
    *look({ name, words, padded, label }) {
      const [model, read] = [modelOf(name), numbers(words, padded, name)];
      const { weights } = model.read(read);
      yield { attention: weights && weights.slice(0, words.length) };
      yield { norms: model.gradientNorms(read, label).slice(0, words.length) };
      const windows = [];
      for (const importance of model.importance(read, words.length, label)) {
        windows.push(importance);
        yield { read: (5 * windows.length) / words.length };
      }
      yield { windows };
    },
    // The gradient alone, of a model that is laid over.
    *over({ name, words, padded, label }) {
      yield { norms: modelOf(name).gradientNorms(numbers(words, padded, name), label).slice(0, words.length) };
    },
    // The first share of filler, in steps of 5 %, at which each model changes its mind.
    *hide({ names, words, setting, padded }) {
      const first = new Map(names.map((name) => [name, verdict(name, numbers(words, padded, name))]));
      const left = new Set(names);
      for (let percent = 5; percent <= 90 && left.size; percent += 5) {
        yield { reading: percent };
        const around = compose(words, sentences, setting, percent / 100).words;
        for (const name of [...left]) {
          if (verdict(name, numbers(around, padded, name)) !== first.get(name)) {
            left.delete(name);
            yield { name, percent };
          } else yield {};
        }
      }
      const alone = sentences.flat().slice(0, 200); // the filler
      for (const name of left) yield { name, percent: null, alone: positive(name, numbers(alone, padded, name)) };
      yield { done: true };
    },
  };

  scope.onmessage = async ({ data: { task, number, ...question } }) => {
    latest[task] = number;
    for (const answer of tasks[task](question)) {
      scope.postMessage({ task, number, ...answer });
      await new Promise((go) => setTimeout(go)); // newer questions come in here
      if (latest[task] !== number) return;
    }
  };
};
