const NUMBER = /^[−-]?[\d,]*\.?\d+(e-?\d+)?(?=[\s%–]|$)/;
const key = (row, column) => {
  const cell = row.cells[column];
  const text = cell.dataset.by ?? cell.textContent.trim();
  const found = text.match(NUMBER);
  return found ? parseFloat(found[0].replace(/,/g, "").replace("−", "-")) : text;
};
const order = (x, y) =>
  typeof x === "number" && typeof y === "number" ? x - y : `${x}`.localeCompare(`${y}`, "en", { numeric: true });

const cells = (row) => [...row.cells].map((cell) => cell.textContent.trim().replace(/\s+/g, " "));
const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
const guarded = (text) => (/^[=+@\t\r]|^-(?![\d.])/.test(text) ? `'${text}` : text);
// a table of numbers reads the page's minus as text
const plain = (text) => (/^−[\d,.]+%?$/.test(text) ? text.replace("−", "-") : text);
const csv = (table) =>
  [...table.rows]
    .filter((row) => !row.classList.contains("of") && !row.hidden)
    .map((row) => cells(row).map((text) => quoted(guarded(plain(text)))).join(","))
    .join("\n");

for (const table of document.querySelectorAll("table.sortable")) {
  const tools = document.createElement("p");
  tools.className = "tools";
  const name = table.caption.textContent.trim();
  const many = [...table.tBodies].reduce((n, body) => n + body.rows.length, 0) > 12;
  if (many) {
    const box = document.createElement("input");
    box.type = "search";
    box.placeholder = "filter rows";
    box.setAttribute("aria-label", `Filter rows of: ${name}`);
    const seen = document.createElement("span");
    seen.setAttribute("role", "status");
    box.addEventListener("input", () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let n = 0;
      for (const body of table.tBodies) {
        for (const row of body.rows) {
          if (row.classList.contains("of")) continue;
          const text = row.textContent.toLowerCase();
          row.hidden = !words.every((word) => text.includes(word));
          n += !row.hidden;
        }
      }
      seen.textContent = words.length ? `${n} shown` : "";
    });
    tools.append(box, seen);
  }
  const save = document.createElement("button");
  save.type = "button";
  save.textContent = "CSV";
  save.setAttribute("aria-label", `Save as CSV: ${name}`);
  save.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", csv(table), "\n"], { type: "text/csv" }));
    link.download = `${name.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 40)}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  tools.append(save);
  table.before(tools);
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
