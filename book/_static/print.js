// What `make pdf` does to a page before it is printed: see lib/paper/pages/print_book.py.

// The article counts its figures and tables from 1, and ends with those works of the bibliography that it cites.
function printedByItself(works) {
  const article = document.querySelector("article.bd-article");
  const numbers = {};
  const counts = {};
  for (const caption of article.querySelectorAll(".caption-number")) {
    const [kind] = caption.textContent.split(" ");
    counts[kind] = (counts[kind] ?? 0) + 1;
    numbers[caption.textContent.trim()] = `${kind} ${counts[kind]}`;
  }
  for (const name of article.querySelectorAll(".caption-number, .std-numref")) {
    const text = name.textContent.trim();
    name.textContent = name.textContent.replace(text, numbers[text] ?? text);
  }
  const cited = new Set();
  for (const link of article.querySelectorAll("a[href*='bibliography.html#']")) {
    cited.add(link.hash.slice(1));
    link.setAttribute("href", link.hash);
  }
  const references = document.createElement("section");
  references.id = "references";
  references.innerHTML = `<h2>References</h2>${works.join("")}`;
  for (const work of references.querySelectorAll("div.citation")) {
    if (!cited.has(work.id)) work.remove();
  }
  article.append(references);
  document.body.classList.add("paper");
}

// The notes of numbers stand at the end of their page.
function notesBelow(article) {
  const list = document.createElement("ol");
  for (const number of article.querySelectorAll("a.noted")) {
    list.append(Object.assign(document.createElement("li"), { textContent: number.dataset.definition }));
    number.after(Object.assign(document.createElement("sup"), { textContent: list.children.length }));
  }
  if (!list.children.length) return;
  const notes = Object.assign(document.createElement("section"), { className: "footnotes" });
  notes.append(Object.assign(document.createElement("h2"), { textContent: "Notes" }), list);
  article.append(notes);
}

// Leave the text alone, with links that work on paper, and tables and code as wide as the paper.
function forPrint(before, author) {
  document.documentElement.style.counterReset = `page ${before}`;
  const article = document.querySelector("article.bd-article");
  notesBelow(article);
  for (const link of article.querySelectorAll("a[href]")) {
    if (link.protocol === "file:" && link.pathname !== location.pathname) link.removeAttribute("href");
  }
  for (const sheet of document.querySelectorAll("link[rel=stylesheet]")) {
    if (!/pygments|mystnb|print\.css/.test(sheet.href)) sheet.remove();
  }
  document.body.replaceChildren(article);
  if (author) {
    const header = document.createElement("header");
    header.append(article.querySelector("h1"), ...author.map((line) => Object.assign(document.createElement("p"), { textContent: line })));
    article.prepend(header);
  }
  const available = article.clientWidth;
  for (const wide of article.querySelectorAll("table, pre")) {
    if (wide.scrollWidth > available + 1) wide.style.zoom = available / wide.scrollWidth;
  }
  return document.title;
}
