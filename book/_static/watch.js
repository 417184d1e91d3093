// "Watch it learn": a slider over the texts that models have learnt from draws the gradient at each word anew.
"use strict";
(() => {
  const root = document.getElementById("learning");
  const { examples, lines } = JSON.parse(root.querySelector("script").textContent);
  const [slider, output, svg, body] = ["input", "output", "svg", "tbody"].map((one) => root.querySelector(one));
  if (!lines.length) return; // no run is here
  root.hidden = false;
  const LEFT = 44, RIGHT = svg.clientWidth - 4, TOP = 30, BOTTOM = 216; // of the drawing, in pixels
  const DECADES = Math.ceil(-Math.min(...lines.flatMap((line) => line.logs.flat()))); // down to the smallest gradient
  svg.setAttribute("viewBox", `0 0 ${RIGHT + 4} 240`);
  const draw = (tag, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    svg.append(made);
    return made;
  };
  const y = (log) => TOP + ((BOTTOM - TOP) * Math.min(DECADES, Math.max(0, -log))) / DECADES;
  const power = (log) => `10${[..."" + log].map((mark) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(mark)]).join("")}`;

  draw("text", { x: 0, y: 14 }, "gradient at a word ÷ that at the first word");
  for (let log = 0; log >= -DECADES; log -= 5) {
    draw("line", { x1: LEFT, x2: RIGHT, y1: y(log), y2: y(log), class: "grid" });
    draw("text", { x: LEFT - 6, y: y(log) + 4, "text-anchor": "end" }, log ? power(log) : "≥ 1");
  }
  draw("text", { x: LEFT, y: BOTTOM + 18 }, "first word");
  draw("text", { x: (LEFT + RIGHT) / 2, y: BOTTOM + 18, "text-anchor": "middle" }, "position in the text");
  draw("text", { x: RIGHT, y: BOTTOM + 18, "text-anchor": "end" }, "last word");
  for (const line of lines) {
    line.drawn = draw("polyline", { class: line.hue, "stroke-dasharray": line.dashes });
    const row = body.insertRow();
    row.innerHTML = '<th scope="row"><svg viewBox="0 0 30 8" aria-hidden="true"><line x2="30" y1="4" y2="4"/></svg> </th><td></td><td></td><td></td>';
    row.cells[0].append(line.name);
    const mark = row.querySelector("line");
    mark.setAttribute("class", line.hue);
    mark.setAttribute("stroke-dasharray", line.dashes);
    row.cells[3].textContent = `${line.accuracy.toFixed(0)} %`;
    [line.ratio, line.reached] = [row.cells[1], row.cells[2]];
  }

  const show = () => {
    const look = Number(slider.value), texts = examples[look].toLocaleString("en");
    output.value = look ? texts : "none, before training";
    slider.setAttribute("aria-valuetext", output.value);
    for (const line of lines) {
      const logs = line.logs[look]; // of the norm at each place, above that at the first
      const x = (place) => LEFT + ((RIGHT - LEFT) * place) / (logs.length - 1);
      line.drawn.setAttribute("points", logs.map((log, place) => `${x(place).toFixed(1)},${y(log).toFixed(1)}`).join(" "));
      const log = logs[Math.floor(logs.length / 2)], times = Number((10 ** -log).toPrecision(2));
      line.ratio.textContent = log > -0.3 ? (10 ** log).toFixed(1) : log < -6 ? power(Math.round(log)) : `1 / ${times.toLocaleString("en")}`;
      line.reached.textContent = line.sofar[look] === null ? "–" : `${line.sofar[look].toFixed(0)} %`;
    }
  };
  slider.max = examples.length - 1;
  slider.addEventListener("input", show);
  show();
})();
