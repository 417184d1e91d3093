// The first figure of the front page: five models read one review while filler grows behind it. It shows stored
// answers, plays once by itself unless motion is reduced, and takes the place of its still picture on a screen.
"use strict";
(() => {
  const panel = document.getElementById("hero");
  const { words, filler, shares, models } = JSON.parse(panel.querySelector("script").textContent);
  const figure = document.getElementById("fig-hero");
  const [text, slider, output, button, body] = [".hero-text", "input", "output", "button", "tbody"].map((each) => panel.querySelector(each));
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const SMALLEST = 9; // pixels that can still be read
  let playing = 0, seen = null; // seen: starts it once by itself, unless the reader was first

  const rows = models.map(({ name, hue }) => {
    const row = body.insertRow();
    row.innerHTML = `<th scope="row"></th><td><span class="hero-bar" style="--hue: var(--${hue})"><span></span></span></td><td></td>`;
    row.cells[0].textContent = name;
    return { bar: row.querySelector(".hero-bar"), says: row.cells[2] };
  });
  const review = document.createElement("mark");
  review.textContent = words.join(" ");
  const behind = document.createElement("span");
  text.append(review, " ", behind);

  const show = () => {
    const step = Number(slider.value), share = shares[step];
    const count = Math.round((words.length * share) / (100 - share));
    const sentences = Array.from({ length: count }, (_, place) => filler[place % filler.length]);
    behind.textContent = sentences.join(" ");
    const letters = text.textContent.length;
    const fitting = Math.sqrt((text.clientWidth * text.clientHeight * 1.22) / letters);
    text.style.fontSize = `${Math.max(fitting, SMALLEST)}px`;
    text.classList.toggle("goes-on", fitting < SMALLEST);
    output.value = `${share} % filler`;
    slider.setAttribute("aria-valuetext", output.value);
    models.forEach(({ answers }, number) => {
      const { bar, says } = rows[number], negative = answers[step];
      bar.style.setProperty("--p", negative);
      bar.classList.toggle("lost", negative < 0.5);
      says.textContent = negative < 0.5 ? `lost at ${shares[answers.findIndex((each) => each < 0.5)]} % filler` : "negative ✓";
    });
  };
  const stop = () => {
    seen?.disconnect();
    clearInterval(playing);
    playing = 0;
    button.textContent = "Play";
  };
  const play = () => {
    stop();
    if (Number(slider.value) === shares.length - 1) slider.value = 0;
    button.textContent = "Pause";
    playing = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      show();
      if (Number(slider.value) === shares.length - 1) stop();
    }, 420);
  };

  slider.max = shares.length - 1;
  slider.addEventListener("input", () => { stop(); show(); });
  button.addEventListener("click", () => (playing ? stop() : play()));
  panel.hidden = false;
  figure.classList.add("hero-still"); // the picture stands in print alone
  figure.prepend(panel);
  slider.value = calm ? shares.indexOf(60) : 0;
  show();
  new ResizeObserver(show).observe(text);
  if (!calm) {
    seen = new IntersectionObserver(([entry]) => entry.isIntersecting && play(), { threshold: 0.6 });
    seen.observe(panel);
  }
})();
