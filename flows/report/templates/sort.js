const NUMBER = /^[−-]?[\d,]*\.?\d+(e-?\d+)?(?=[\s%–]|$)/;
const key = (row, column) => {
  const cell = row.cells[column];
  const text = cell.dataset.by ?? cell.textContent.trim();
  const found = text.match(NUMBER);
  return found ? parseFloat(found[0].replace(/,/g, "").replace("−", "-")) : text;
};
const order = (x, y) =>
  typeof x === "number" && typeof y === "number" ? x - y : `${x}`.localeCompare(`${y}`, "en", { numeric: true });

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.querySelectorAll("thead th")];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter((row) => !row.classList.contains("of"));
        const keyed = rows.map((row) => [key(row, column), row]);
        keyed.sort(([x], [y]) => (x === "—") - (y === "—") || (up ? order(x, y) : order(y, x)));
        body.append(...keyed.map(([, row]) => row));
      }
    });
  });
}
