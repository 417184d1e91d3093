// From disk a browser fetches no pages, so that results of the search show titles without summaries.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

// What a page folds away takes its code with it.
addEventListener("DOMContentLoaded", () => {
  for (const fold of document.querySelectorAll("div.cell details.below-input")) {
    const code = fold.previousElementSibling;
    if (code) fold.firstElementChild.after(code);
  }
});

// Parameters and imports come first in a notebook; on a page the first figure comes before them, and the code of a figure
// below what it draws.
addEventListener("DOMContentLoaded", () => {
  let first = true;
  for (const fold of document.querySelectorAll("div.cell:not(.tag_finding) > details.above-input:has(+ .cell_output figure)")) {
    const cell = fold.closest("div.cell");
    const below = cell.cloneNode(false);
    const before = [];
    const folded = ".cell:not(:has(> *)), .cell:has(> details.above-input:only-child)"; // or without anything to see
    for (let other = cell.previousElementSibling; first && other?.matches(folded); ) {
      before.push(other);
      other = other.previousElementSibling;
    }
    below.append(fold);
    cell.after(below, ...before.reverse());
    first = false;
  }
});

// "See it happen" begins with the picture that its code draws.
addEventListener("DOMContentLoaded", () => {
  const heading = document.querySelector("#see-it-happen > h2");
  const figure = heading?.parentElement.querySelector(":scope > .cell figure");
  if (figure) heading.after(figure);
});

// On a phone the first figure of a page comes right after its lead, the first paragraph with bold words, or its title.
addEventListener("DOMContentLoaded", () => {
  const title = document.querySelector("article h1");
  const [lead, figure] = [":scope > p:has(strong)", ":scope > .cell:has(figure)"].map((each) => title?.parentElement.querySelector(each));
  if (figure && matchMedia("(max-width: 575px)").matches) (lead ?? title).after(figure);
});

// A term of the glossary says what it means, and a number what it rests on, under the pointer, the focus or a first touch;
// a second one follows the link.
addEventListener("DOMContentLoaded", () => {
  const box = Object.assign(document.createElement("div"), { id: "definition", role: "tooltip", hidden: true });
  document.body.append(box);
  let shown = null;
  const hide = () => {
    shown?.removeAttribute("aria-describedby");
    shown = null;
    box.hidden = true;
  };
  const show = (link) => {
    hide();
    shown = link;
    link.setAttribute("aria-describedby", box.id);
    box.textContent = link.dataset.definition;
    box.hidden = false;
    const { left, bottom } = link.getClientRects()[0];
    box.style.top = `${scrollY + bottom}px`;
    box.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - box.offsetWidth - 8))}px`;
  };
  const leave = () => setTimeout(() => box.matches(":hover") || shown?.matches(":hover, :focus") || hide(), 150);
  for (const link of document.querySelectorAll("a[data-definition]")) {
    let before = false;
    link.addEventListener("pointerdown", () => (before = shown === link));
    link.addEventListener("click", (event) => {
      if (event.pointerType === "touch" && !before) {
        event.preventDefault();
        show(link);
      }
    });
    for (const kind of ["pointerenter", "focus"]) {
      link.addEventListener(kind, (event) => event.pointerType === "touch" || show(link));
    }
    link.addEventListener("pointerleave", leave);
    link.addEventListener("blur", leave);
  }
  box.addEventListener("pointerleave", leave);
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
  addEventListener("pointerdown", (event) => event.target.closest("a") === shown || box.contains(event.target) || hide());
});
