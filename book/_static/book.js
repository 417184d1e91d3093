// From disk a browser fetches no pages, so that results of the search show titles without summaries.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

// On a phone a figure keeps a size at which its words can be read, and scrolls inside its box (book.css).
window.addEventListener("load", () => {
  for (const image of document.querySelectorAll("article figure img")) {
    const box = document.createElement("div");
    box.className = "figure-box";
    image.replaceWith(box);
    box.append(image);
    const observer = new ResizeObserver(() => {
      const scrolls = box.scrollWidth > box.clientWidth;
      Object.assign(box, scrolls ? { role: "group", ariaLabel: "The figure, which scrolls" } : { role: null, ariaLabel: null });
      if (scrolls) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });
    observer.observe(box);
    observer.observe(image);  // which gets its size later than the box, inside what was folded
  }
});

// Where numbers come from is a line to open: how many runs, and behind it corpora, machines and commits.
addEventListener("DOMContentLoaded", () => {
  for (const line of document.querySelectorAll("div.provenance")) {
    const [runs, more] = line.textContent.split(";", 2);
    if (!more) continue;
    const fold = document.createElement("details");
    const head = document.createElement("summary");
    fold.className = "provenance";
    head.textContent = runs.trim();
    line.replaceWith(fold);
    fold.append(head, line);
  }
});
