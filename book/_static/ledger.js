// Sorts and filters the tables of claims. Without it all of their rows are on the page.
"use strict";
(() => {
  const form = document.getElementById("ledger-filters");
  const waiting = document.getElementById("ledger-waiting"); // the fold of claims that are not run
  if (!form) return;
  const tables = [...document.querySelectorAll(".ledger table")];
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const { chapter, verdict, compact, source, text, count } = form.elements;
  const fields = [chapter, verdict, compact, source, text];

  // Numbers sort as numbers; what has none stays below, whichever way.
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    const key = cell.dataset.sort ?? cell.textContent.trim();
    const number = Number(key === "inf" ? Infinity : key === "-inf" ? -Infinity : key);
    return key === "" ? null : Number.isNaN(number) ? key : number;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? Math.sign(a - b) || 0 : String(a).localeCompare(b);
  const sort = (table, column, descending) => {
    const [body, heads] = [table.tBodies[0], [...table.tHead.rows[0].cells]];
    const keys = new Map([...body.rows].map((row) => [row, keyOf(row, column)]));
    const sorted = [...body.rows].sort((one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return compare(a, b) * (descending ? -1 : 1);
    });
    body.append(...sorted);
    heads.forEach((head, place) => {
      if (place === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  };
  for (const table of tables) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(table, column, head.getAttribute("aria-sort") === "ascending"));
      head.replaceChildren(button);
    });
  }

  const show = () => {
    const wanted = text.value.trim().toLowerCase();
    for (const row of rows) {
      row.hidden =
        (chapter.value !== "" && row.dataset.chapter !== chapter.value) ||
        (verdict.value !== "" && row.dataset.verdict !== verdict.value) ||
        (compact.value !== "" && row.dataset.compact !== compact.value) ||
        (source.value !== "" && row.dataset.source !== source.value) ||
        (wanted !== "" && !row.textContent.toLowerCase().includes(wanted));
    }
    if (waiting) {
      waiting.hidden = !waiting.querySelector("tbody tr:not([hidden])");
      if (fields.some((field) => field.value)) waiting.open = true;
    }
    count.value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} claims`;
  };

  // The address keeps the filters: ledger.html#verdict=holds, also from disk; #claim-... marks a row.
  const write = () => {
    const chosen = new URLSearchParams();
    for (const field of fields) if (field.value) chosen.set(field.name, field.value);
    const { pathname, search } = window.location;
    history.replaceState(null, "", String(chosen) ? `#${chosen}` : pathname + search);
  };
  const read = () => {
    const hash = window.location.hash.slice(1);
    const linked = rows.find((row) => row.id === hash);
    const chosen = new URLSearchParams(linked ? "" : hash);
    const hasFilters = fields.some(({ name }) => chosen.has(name));
    rows.forEach((row) => row.classList.toggle("linked", row === linked));
    if (hash && !linked && !hasFilters) return show(); // another place on the page
    for (const field of fields) {
      field.value = chosen.get(field.name) ?? "";
      if (field.selectedIndex === -1) field.value = ""; // an address that names what there is not
    }
    show();
    if (waiting?.contains(linked ?? null)) waiting.open = true;
    if (linked) {
      linked.querySelector("details").open = true;
      linked.scrollIntoView({ block: "center" });
    }
    else if (String(chosen)) form.scrollIntoView(); // as from a bar of the figure: to the list
  };
  form.addEventListener("input", () => { show(); write(); });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    for (const field of fields) field.value = "";
    show();
    write();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", read);
  form.hidden = false;
  read();
})();
