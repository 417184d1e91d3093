// The small widget of the front page: five models that learnt in filler read one review, with as much filler around
// it as one likes.
"use strict";
(() => {
  const { text, examples, filler, poolings, most } = whenpoolTryIt;
  const { tokenize, compose } = text();
  const root = document.getElementById("try-it-small");
  const near = document.currentScript.src;
  if (!root) return;
  const [form, button, state, body] = ["form", "button", ".try-state", "tbody"].map((one) => root.querySelector(one));
  const { review, share } = form.elements;
  const names = Object.keys(poolings);
  const sentences = filler.map(tokenize);
  const says = new Map();
  let begun, ask = null; // until the models are there
  let waiting = 0;

  const show = (name, positive) => {
    const [, bar, words] = body.rows[names.indexOf(name)].cells;
    bar.firstChild.style.setProperty("--p", positive);
    words.textContent = whenpoolTryIt.answer(positive);
  };
  const clear = ({ cells: [, bar, words] }) => {
    bar.firstChild.style.setProperty("--p", 0.5);
    words.textContent = "";
  };
  const update = () => {
    share.nextElementSibling.value = `${share.value} %`;
    const words = compose(tokenize(review.value).slice(0, most), sentences, "mid", share.value / 100).words;
    if (ask && words.length) ask("say", { names, words, padded: false });
    else for (const row of body.rows) clear(row); // nothing is known of another text
  };
  const hear = {
    load() {
      ask = begun;
      button.hidden = true;
      update();
    },
    say({ name, positive, unknown }) {
      if (unknown) {
        state.textContent = `${unknown.length} words. ${whenpoolTryIt.summary(says)}.`;
        return;
      }
      show(name, positive);
      says.set(name, whenpoolTryIt.verdict(positive));
    },
  };

  const { title, answers } = whenpoolTryIt.first; // what they say of the page as it opens shows at once
  body.innerHTML = names.map((name) =>
    `<tr><th scope="row">${poolings[name]}<small>right on ${Math.round(answers[name].here)} %</small></th><td><span class="try-bar" aria-hidden="true"` +
    ` style="--hue: var(--${name}); --p: 0.5"><span></span></span></td><td></td></tr>`).join("");
  review.value = examples.find((one) => one.title === title).text;
  for (const name of names) show(name, answers[name].positive);
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(update, 120); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    button.disabled = true;
    begun = whenpoolTryIt.start(near, hear, state, "filler");
  });
  root.hidden = false;
})();
