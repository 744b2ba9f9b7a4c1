for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[column].textContent.trim();
      const number = (text) => parseFloat(text.replace(/,/g, ""));
      const order = (a, b) => {
        const [x, y] = [number(key(a)), number(key(b))];
        if (Number.isNaN(x) || Number.isNaN(y)) {
          return Number.isNaN(x) - Number.isNaN(y) || key(a).localeCompare(key(b));
        }
        return x - y;
      };
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter((row) => !row.classList.contains("of"));
        rows.sort((a, b) => (up ? order(a, b) : order(b, a)));
        body.append(...rows);
      }
    });
  });
}
