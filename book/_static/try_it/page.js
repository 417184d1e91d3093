// The widget of the page "Try it": it asks the worker, and shows what it answers.
"use strict";
(() => {
  const { text, examples, filler, poolings: NAMES, most: MOST, first: OPENING } = whenpoolTryIt;
  const { tokenize, compose } = text();
  const root = document.getElementById("try-it-models");
  const folder = document.currentScript.src;
  if (!root) return;
  const form = root.querySelector("form");
  const { example, review, share, setting, padding, bias, trained, colour, label, texts, over, own } = form.elements;
  const find = (name) => root.querySelector(`.try-${name}`);
  const [body, words, state, note, button] = ["rows", "words", "state", "norms", "hide"].map(find);
  const labels = find("plot").querySelectorAll("span"); // of the line, the upper and the lower one
  const DECADES = 6; // of the bar under a word
  // 0.012, 12 or 1.2·10⁻⁵
  const written = (value) => {
    if (!Number.isFinite(value)) return "–";
    const [digits, exponent] = value.toExponential(1).split("e").map(Number);
    if (exponent > -3 && exponent < 3) return value.toPrecision(exponent < 0 ? 2 : exponent + 2);
    const power = [...String(exponent)].map((mark) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(mark)]).join("");
    return `${digits.toFixed(1)}·10${power}`;
  };
  const sentences = filler.map(tokenize);

  // ---- what is asked

  const nameOf = (pooling) => pooling === "own" ? pooling :
    (pooling === "last" && bias.value === "chrono" ? "chrono" : pooling) + (trained.value === "after" ? "" : " untrained");
  const poolings = Object.keys(NAMES); // and "own", once a reader has brought a model
  const titles = { ...NAMES };
  let [mine, before] = [null, null]; // that model, and the one that it takes the place of
  const chosen = () => form.elements.pooling.value;
  const reviewed = () => tokenize(review.value).slice(0, MOST);
  const asked = () => ({ names: poolings.map(nameOf), setting: setting.value, padded: padding.value === "read" });
  const weights = () => whenpoolTryIt[whenpoolTryIt.sets[texts.value][1]]; // once they are there
  const composed = () => compose(reviewed(), sentences, setting.value, share.value / 100);

  const update = () => {
    share.nextElementSibling.value = `${share.value} %`;
    const found = composed();
    draw(found);
    for (const pooling of poolings) showAccuracy(pooling);
    says.clear();
    for (const one of body.rows) one.classList.add("old"); // until it is computed again
    const ask = asks[texts.value];
    if (!found.words.length) return clear();
    first();
    if (!ask) return;
    ask("say", { ...asked(), words: found.words });
    ask("look", { name: nameOf(chosen()), words: found.words, padded: asked().padded, label: Number(label.value) });
    if (over.value) ask("over", { name: nameOf(over.value), words: found.words, padded: asked().padded, label: Number(label.value) });
  };
  // The address holds what is shown, so that it can be sent.
  const remember = () => {
    const state = new URLSearchParams(new FormData(form));
    state.delete("own");
    if (example.value !== "own") state.delete("review");
    history.replaceState(null, "", `#${state}`);
  };

  // ---- what is answered

  const asks = {}; // by set of models, once they are there
  const begun = {};
  const says = new Map();
  let seen = {};
  const hear = {
    load() {
      state.textContent = "";
      button.disabled = false;
      if (mine) asks[texts.value]("own", mine);
      update();
    },
    own({ classes, pooling, accuracy, wrong }) {
      if (wrong) {
        mine = before; // what was there stays
        state.textContent = `Your model cannot be used: ${wrong}.`;
        return;
      }
      Object.assign(mine, { classes, accuracy });
      titles.own = `Yours, ${NAMES[pooling]}`;
      if (!poolings.includes("own")) {
        poolings.push("own");
        body.append(makeRow("own"));
        over.append(make("option", { value: "own", textContent: "Yours" }));
      }
      row("own").querySelector("label span").textContent = titles.own;
      before = mine;
      forget();
      update();
    },
    over({ norms }) {
      drawLine(find("line").children[2], norms);
    },
    say({ name, positive, probabilities, unknown }) {
      if (unknown) {
        [...words.children].forEach((word, place) => word.classList.toggle("unknown", unknown[place]));
        tell();
        return;
      }
      const pooling = poolings.find((one) => nameOf(one) === name);
      if (!pooling) return; // it was asked before a switch was changed
      showAnswer(pooling, positive);
      if (pooling === "own") {
        // of two classes the second, as on the bar; of more, the likeliest
        const said = probabilities.length === 2 ? 1 : probabilities.indexOf(Math.max(...probabilities));
        row("own").cells[1].children[1].textContent = `${Math.round(100 * probabilities[said])} % ${mine.classes[said]}`;
        return;
      }
      says.set(pooling, whenpoolTryIt.verdict(positive));
    },
    look({ attention, norms, windows, read }) {
      if (read) {
        if (colour.value === "importance" && !seen.shades) find("none").textContent = `Importance: ${Math.round(100 * read)} % read`;
        return;
      }
      Object.assign(seen, attention !== undefined && { attention }, norms && { norms }, windows && { windows });
      paint();
      if (norms) drawNorms(norms);
    },
    hide({ name, percent: at, alone, done, reading }) {
      if (reading) button.textContent = `Reading ${reading} % …`;
      if (done) {
        endHiding();
        const flips = poolings.map((one) => `${titles[one]} ${row(one).cells[3].firstChild.textContent}`);
        state.textContent = `Each model changes its mind at this share of filler, up to 90 %: ${flips.join(", ")}.`;
      } else if (name) {
        const pooling = poolings.find((one) => nameOf(one) === name);
        if (!pooling) return;
        row(pooling).cells[3].textContent = at ? `${at} %` : "never";
        if (!at && pooling !== "own") row(pooling).cells[3].append(make("small", { textContent: `filler alone: ${whenpoolTryIt.verdict(alone)}` }));
      }
    },
  };

  // ---- what is shown

  const row = (pooling) => body.rows[poolings.indexOf(pooling)];
  const make = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const makeRow = (pooling) => {
    const radio = make("input", { type: "radio", name: "pooling", value: pooling, checked: pooling === OPENING.pooling });
    const bar = make("span", { className: "try-bar" }, make("span"));
    bar.setAttribute("aria-hidden", "true");
    bar.style.setProperty("--hue", `var(--${pooling})`);
    bar.style.setProperty("--p", 0.5);
    const head = make("th", { scope: "row" }, make("label", {}, radio, make("span", { textContent: titles[pooling] })));
    return make("tr", {}, head, make("td", {}, bar, make("small", { textContent: "…" })), make("td"), make("td"));
  };
  const showAnswer = (pooling, positive) => {
    const [bar, words] = row(pooling).cells[1].children;
    row(pooling).classList.remove("old");
    bar.style.setProperty("--p", positive ?? 0.5);
    words.textContent = positive === null ? "–" : whenpoolTryIt.answer(positive);
  };
  // Nothing is said of a text without words.
  const clear = () => {
    for (const task of ["say", "look", "over"]) asks[texts.value]?.forget(task);
    for (const pooling of poolings) showAnswer(pooling, null);
    for (const shown of [note, find("none"), ...labels]) shown.textContent = "";
    state.textContent = "Type some words, or choose a review.";
  };
  // What was stored of the state in which the page opens shows before it is computed.
  const first = () => {
    const { set, place, percent, title, answers, pooling: model, windows } = OPENING;
    const untouched = texts.value === set && setting.value === place && Number(share.value) === percent &&
      examples[example.value]?.title === title && padding.value === "masked" && trained.value === "after";
    if (!untouched) return;
    for (const pooling of poolings) if (answers[nameOf(pooling)]) showAnswer(pooling, answers[nameOf(pooling)].positive);
    if (nameOf(chosen()) !== model || Number(label.value) !== examples[example.value].label) return;
    seen = { windows };
    paint();
  };
  const showAccuracy = (pooling) => {
    if (pooling === "own") {
      row("own").cells[2].textContent = mine.accuracy == null ? "" : `${mine.accuracy.toFixed(1)} %`;
      return;
    }
    const name = row(pooling).querySelector("label span");
    name.textContent = NAMES[pooling] + (pooling === "last" && bias.value === "chrono" ? ", chrono" : "");
    const known = weights()?.models[nameOf(pooling)] ??
      (texts.value === OPENING.set && OPENING.answers[nameOf(pooling)]);
    if (!known) return row(pooling).cells[2].replaceChildren();
    row(pooling).cells[2].textContent = `${known.here.toFixed(1)} %`;
  };
  const endHiding = () => {
    button.disabled = !asks[texts.value];
    button.textContent = "Hide the opinion";
  };
  const forget = () => {
    body.parentElement.classList.remove("flips");
    for (const ask of Object.values(asks)) ask.forget("hide");
    endHiding();
  };

  const draw = ({ words: all, start: first }) => {
    const last = first + reviewed().length;
    seen = {};
    begins = first;
    const shown = (word, place) =>
      make("span", { textContent: word, className: place >= first && place < last ? "review" : "" });
    words.replaceChildren(...all.flatMap((word, place) => [shown(word, place), " "]));
    root.style.setProperty("--hue", `var(--${chosen()})`);
    const [band, line, other] = find("line").children;
    other.setAttribute("points", "");
    other.style.setProperty("--hue", `var(--${over.value || "last"})`);
    band.setAttribute("x", (100 * first) / Math.max(1, all.length));
    band.setAttribute("width", (100 * (last - first)) / Math.max(1, all.length));
    line.setAttribute("points", "");
    const opinion = words.children[first]; // the box shows where the review begins
    words.scrollTop = opinion ? opinion.offsetTop - 4 : 0;
    point(-1);
  };
  // The background of each word and the bar under it.
  const paint = () => {
    const shades = (seen.shades = colour.value === "attention" ? seen.attention : seen.windows && importance(seen.windows));
    const most = Math.max(0, ...(shades ?? []));
    const top = Math.max(0, ...(seen.norms ?? []));
    [...words.children].forEach((word, place) => {
      word.style.setProperty("--a", most && (shades[place] ?? 0) / most);
      if (top) word.style.setProperty("--g", Math.max(0.04, 1 + Math.log10(seen.norms[place] / top) / DECADES));
    });
    point(pointed);
    const none = colour.value === "attention" && seen.attention === null;
    find("none").textContent = none ? `${titles[chosen()]} has no attention; colour the words by importance.`
      : most ? `The strongest shade stands for ${colour.value} ${written(most)}.` : "";
  };
  // Each window's importance above that of the least one, on its five words (thesis §1.9.3).
  const importance = (windows) => windows.flatMap((window) => Array(5).fill(window - Math.min(...windows)));
  // A reader points at a word: a line has its numbers, as far as they are known.
  let [pointed, begins] = [-1, 0]; // the word, and where the review begins
  const point = (place) => {
    words.children[pointed]?.classList.remove("at");
    pointed = place;
    const word = words.children[place];
    word?.classList.add("at");
    const numbers = { "gradient norm": seen.norms?.[place], [colour.value]: seen.shades?.[place] };
    const known = Object.entries(numbers).filter(([, value]) => value !== undefined);
    find("word").textContent = word
      ? [word.textContent, ...known.map(([name, value]) => `${name} ${written(value)}`)].join(" · ")
      : "Point at a word or tap it for its numbers, or go there by the arrow keys.";
  };

  const tell = () => {
    const long = tokenize(review.value).length > MOST ? ` The review is cut at ${MOST} words.` : "";
    const pads = padding.value === "read" ? " and as many pads" : "";
    state.textContent = `${words.children.length} words${pads}. ${whenpoolTryIt.summary(says)}.${long}`;
  };
  // The norms over the position, in a line and in words.
  const drawLine = (line, norms) => {
    const top = Math.max(...norms, Number.MIN_VALUE);
    const depth = (norm) => Math.min(DECADES, Math.log10(top / norm)); // in factors of ten
    const points = [...norms].map((norm, place) => `${(100 * (place + 0.5)) / norms.length},${1 + (38 * depth(norm)) / DECADES}`);
    line.setAttribute("points", points.join(" "));
  };
  const drawNorms = (norms) => {
    drawLine(find("line").children[1], norms);
    const top = Math.max(...norms);
    [labels[0].textContent, labels[1].textContent] = [written(top), `≤ ${written(top / 10 ** DECADES)}`];
    const [first, middle, last] = [norms[0], norms[Math.floor(norms.length / 2)], norms[norms.length - 1]];
    const [a, b, c, ratio] = [first, middle, last, middle / first].map(written);
    note.textContent =
      `Gradient norm of ${titles[chosen()]}: ${a} at the first word, ${b} in the middle, ${c} at the last one; ` +
      `the middle divided by the first is ${ratio}.`;
  };

  // ---- what the reader does

  body.append(...poolings.map(makeRow));
  over.append(...poolings.map((one) => make("option", { value: one, textContent: NAMES[one] })));
  example.append(...examples.map(({ title }, place) => make("option", { textContent: title, value: place })));
  example.append(make("option", { textContent: "Your own", value: "own" }));
  example.value = examples.findIndex(({ title }) => title === OPENING.title);
  const take = (one) => [review.value, label.value] = [one.text, one.label];
  take(examples[example.value]);
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const field = form.elements[name];
    if (field === own || !(field instanceof Element || field instanceof RadioNodeList)) continue;
    const usual = field.value;
    field.value = value;
    if (!field.value) field.value = usual; // what is no choice here
    if (field === example && examples[value]) take(examples[value]);
  }
  const choices = root.querySelector("details"); // where a reader types
  choices.open = example.value === "own";
  let waiting = 0;
  const soon = () => { clearTimeout(waiting); waiting = setTimeout(update, 120); };
  form.addEventListener("input", ({ target }) => {
    if (target === example && example.value !== "own") take(examples[example.value]);
    if (target === example && example.value === "own") {
      choices.open = true;
      review.select();
    }
    if (target === review) example.value = "own";
    if (target === own) return;
    if (target === colour) {
      remember();
      return paint();
    }
    if (target === texts) load();
    if (![share, label, over].includes(target) && target.name !== "pooling") forget();
    if (target.name !== "pooling") for (const one of body.rows) one.classList.add("old");
    if (target === share) share.nextElementSibling.value = `${share.value} %`;
    remember();
    soon();
  });
  for (const kind of ["pointerover", "click"]) {
    words.addEventListener(kind, ({ target }) => { if (target !== words) point([...words.children].indexOf(target)); });
  }
  words.addEventListener("focus", () => { if (pointed < 0) point(begins); });
  words.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: pointed - 1, ArrowRight: pointed + 1, Home: 0, End: words.children.length - 1 }[event.key];
    if (!words.children[to]) return;
    event.preventDefault();
    point(to);
    words.children[to].scrollIntoView({ block: "nearest" });
  });
  // Two files of a checkpoint, chosen or dropped.
  const bring = async (files) => {
    const [json, weights] = [".json", ".safetensors"].map((end) => [...files].find(({ name }) => name.endsWith(end)));
    if (!json || !weights) {
      state.textContent = "Bring two files: model.json and model.safetensors of a checkpoint's folder.";
      return;
    }
    mine = { json: await json.text(), bytes: await weights.arrayBuffer() };
    for (const ask of Object.values(asks)) ask("own", mine);
  };
  own.addEventListener("change", () => bring(own.files));
  const hasFiles = ({ dataTransfer }) => dataTransfer.types.includes("Files"); // text goes where it is dropped
  root.addEventListener("dragover", (event) => { if (hasFiles(event)) event.preventDefault(); });
  root.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    bring(event.dataTransfer.files);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  button.addEventListener("click", () => {
    if (!reviewed().length) return clear();
    button.disabled = true;
    body.parentElement.classList.add("flips"); // the last column shows
    for (const pooling of poolings) row(pooling).cells[3].textContent = "…";
    asks[texts.value]("hide", { ...asked(), words: reviewed() });
  });

  // ---- the weights come when the widget is seen

  const load = () => {
    const set = texts.value;
    if (begun[set]) return;
    const current = Object.entries(hear).map(([task, heard]) => [task, (answer) => set === texts.value && heard(answer)]);
    current.push(["load", () => { asks[set] = begun[set]; if (set === texts.value) hear.load(); }]);
    begun[set] = whenpoolTryIt.start(folder, Object.fromEntries(current), state, set);
  };
  root.hidden = false;
  update();
  const watcher = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    watcher.disconnect();
    load();
  });
  watcher.observe(root);
})();
