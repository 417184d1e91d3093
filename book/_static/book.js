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
