// Sliders that redraw what theory expects of the gradient of a BiLSTM that is read at its ends
// (book/expected_gradient.py). Nothing here is measured.
"use strict";
(() => {
  // By how much a step back multiplies the norm, 10 to 30 words from the last state: an LSTM of 128 units on
  // 100 inputs of variance 1, for forget biases of -1, -0.5, ... 3; between them a straight line.
  const FACTORS = [0.3914, 0.4939, 0.6065, 0.7179, 0.8169, 0.8962, 0.9534, 0.9913, 1.0151];
  const factor = (bias) => {
    const place = Math.min(2 * (bias + 1), FACTORS.length - 1.000001);
    const below = Math.floor(place);
    return FACTORS[below] + (place - below) * (FACTORS[below + 1] - FACTORS[below]);
  };

  // log10 of the norm at each of n words, relative to a state that is read: the left-to-right half is read
  // behind the last word, the right-to-left half before the first.
  const curve = (bias, n) => {
    const step = Math.log10(factor(bias));
    return Array.from({ length: n }, (_, t) => {
      const [near, far] = [t * step, (n - 1 - t) * step].sort((a, b) => b - a);
      return near + 0.5 * Math.log10(1 + 10 ** (2 * (far - near)));
    });
  };
  globalThis.whenpoolGradientTheory = { factor, curve };

  const root = document.getElementById("gradient-theory");
  if (!root) return;
  const { bias, words } = root.querySelector("form").elements;
  const picture = root.querySelector("svg");
  const said = root.querySelector("[role=status]");
  const [LEFT, TOP, WIDTH, HEIGHT] = [72, 8, 510, 200];
  const draw = (tag, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    picture.append(made);
  };
  const power = (exponent) => `10${[...String(exponent)].map((mark) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(mark)]).join("")}`;

  const written = (value) => {
    const exponent = Math.floor(Math.log10(value));
    return exponent > -3 ? value.toPrecision(2) : `${(value / 10 ** exponent).toFixed(1)}·${power(exponent)}`;
  };

  const show = () => {
    const [b, n] = [Number(bias.value), Number(words.value)];
    bias.nextElementSibling.value = b.toFixed(1);
    words.nextElementSibling.value = n;
    const norms = curve(b, n);
    const low = Math.min(-2, Math.floor(Math.min(...norms)));
    const high = Math.max(0, Math.ceil(Math.max(...norms) - 0.16)); // at the ends of a short text both halves count
    const x = (t) => LEFT + (WIDTH * t) / (n - 1);
    const y = (norm) => TOP + (HEIGHT * (high + 0.2 - norm)) / (high + 0.2 - low);
    picture.replaceChildren();
    const every = Math.ceil((high - low) / 6);
    for (let exponent = high; exponent >= low; exponent -= every) {
      draw("line", { x1: LEFT, x2: LEFT + WIDTH, y1: y(exponent), y2: y(exponent), class: "grid" });
      draw("text", { x: LEFT - 6, y: y(exponent) + 4, "text-anchor": "end" }, exponent ? power(exponent) : "1");
    }
    draw("text", { x: LEFT, y: TOP + HEIGHT + 22 }, "first word");
    draw("text", { x: LEFT + WIDTH, y: TOP + HEIGHT + 22, "text-anchor": "end" }, `word ${n}`);
    draw("polyline", { points: norms.map((norm, t) => `${x(t).toFixed(1)},${y(norm).toFixed(1)}`).join(" ") });
    const ratio = 10 ** (norms[Math.floor(n / 2)] - norms[0]);
    const grows = factor(b) > 1 ? " The gradient grows on its way back." : "";
    said.textContent =
      `Each step back multiplies the norm by ${factor(b).toFixed(3)}. In the middle of ${n} words the norm is ` +
      `${written(ratio)} times the norm at the first word.${grows}`;
  };
  root.addEventListener("input", show);
  root.hidden = false;
  show();
})();
