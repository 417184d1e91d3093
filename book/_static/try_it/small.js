// The small widget of the front page: five models read one review, with as much filler around it as one likes.
"use strict";
(() => {
  const { text, examples, filler, poolings } = whenpoolTryIt;
  const { tokenize, compose } = text();
  const root = document.getElementById("try-it-small");
  const near = document.currentScript.src;
  if (!root) return;
  const [form, button, state, body] = ["form", "button", ".try-state", "tbody"].map((one) => root.querySelector(one));
  const { review, share } = form.elements;
  const names = Object.keys(poolings);
  const sentences = filler.map(tokenize);
  let begun, ask = null; // until the models are there
  let waiting = 0;

  const update = () => {
    share.nextElementSibling.value = `${share.value} %`;
    const words = compose(tokenize(review.value).slice(0, 200), sentences, "mid", share.value / 100).words;
    if (ask && words.length) ask("say", { names, words, padded: false });
  };
  const hear = {
    load() {
      ask = begun;
      button.hidden = true;
      update();
    },
    say({ name, positive, unknown }) {
      if (unknown) {
        const groups = ["negative", "positive"].map((verdict) => {
          const rows = [...body.rows].filter((row) => row.cells[2].textContent.endsWith(verdict));
          return rows.length && `${rows.map((row) => row.cells[0].textContent).join(", ")}: ${verdict}`;
        });
        state.textContent = `${unknown.length} words. ${groups.filter(Boolean).join("; ")}.`;
        return;
      }
      const [, bar, words] = body.rows[names.indexOf(name)].cells;
      bar.firstChild.style.setProperty("--p", positive);
      words.textContent = `${Math.round(100 * Math.max(positive, 1 - positive))} % ${positive > 0.5 ? "positive" : "negative"}`;
    },
  };

  body.innerHTML = names.map((name) =>
    `<tr><th scope="row">${poolings[name]}</th><td><span class="try-bar" aria-hidden="true"` +
    ` style="--hue: var(--${name}); --p: 0.5"><span></span></span></td><td></td></tr>`).join("");
  review.value = examples[0].text;
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(update, 120); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    button.disabled = true;
    state.textContent = "Loading the models (1.8 MB) …";
    begun = whenpoolTryIt.start(near, hear, () => {
      state.textContent = "The file of the models, weights.js, is not beside this page.";
    });
  });
  root.hidden = false;
})();
