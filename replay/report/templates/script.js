"use strict";
(() => {
  const each = (list, act) => Array.prototype.forEach.call(list, act);

  // tables: a button in every head sorts by its column; rows without a figure stay last
  const valueOf = (row, column) => {
    const value = row.cells[column].dataset.v;
    if (value === undefined) return null;
    return column === 0 && isNaN(value) ? value : Number(value);
  };
  const sort = (table, head, column) => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    each(table.tHead.rows[0].cells, (other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((a, b) => {
      const x = valueOf(a, column), y = valueOf(b, column);
      if (x === null || y === null) return (x === null) - (y === null);
      const order = typeof x === "string" ? x.localeCompare(y) : x - y;
      return up ? order : -order;
    });
    each(rows, (row) => table.tBodies[0].appendChild(row));
  };
  each(document.querySelectorAll("table.sortable"), (table) => {
    each(table.tHead.rows[0].cells, (head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = head.title || "";
      while (head.firstChild) button.appendChild(head.firstChild);
      head.appendChild(button);
      button.addEventListener("click", () => sort(table, head, column));
    });
  });

  // which policies the line charts show
  each(document.querySelectorAll("fieldset.series"), (box) => {
    box.hidden = false;
    box.addEventListener("change", (event) => {
      const key = event.target.value;
      each(document.querySelectorAll(`.chart[data-series] .policy-${key}`), (group) => {
        group.classList.toggle("off", !event.target.checked);
      });
    });
  });

  // the value under the pointer
  const tip = document.getElementById("tip");
  const show = (value, label) => {
    if (/ratio|accepted/.test(label)) return `${(100 * value).toFixed(1)}%`;
    return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  };
  const pointsOf = (panel) => {
    const found = [];
    each(panel.querySelectorAll("[class^=policy-]"), (group) => {
      const series = Number(group.getAttribute("class").match(/policy-(\d+)/)[1]);
      const line = group.querySelector(":scope > path");
      const marks = line ? (line.getAttribute("d").match(/-?[\d.]+ -?[\d.]+/g) || []).map((p) => p.split(" ").map(Number))
        : Array.from(group.querySelectorAll("use"), (use) => [Number(use.getAttribute("x")), Number(use.getAttribute("y"))]);
      each(marks, (mark) => found.push({ series, group, x: mark[0], y: mark[1] }));
    });
    return found;
  };
  const inside = (frame, x, y) => x >= frame.box[0] - 4 && x <= frame.box[2] + 4 && y >= frame.box[1] - 4 && y <= frame.box[3] + 4;
  const scale = (pixel, from, to, low, high) => low + (pixel - from) / (to - from) * (high - low);
  const cellText = (frame, x, y) => {
    const column = Math.floor(scale(x, frame.box[0], frame.box[2], frame.x[0], frame.x[1]));
    const row = Math.floor(scale(y, frame.box[1], frame.box[3], frame.y[1], frame.y[0]));
    const values = frame.cells.values[row];
    if (!values || values[column] === undefined || values[column] === null) return "";
    return `${frame.cells.rows[row]}\nlayer ${frame.cells.columns[column]}: ${show(values[column], "")} misses per token`;
  };
  const nearest = (points, x, y) => {
    let best = null, least = 18 * 18;
    each(points, (point) => {
      const far = (point.x - x) ** 2 + (point.y - y) ** 2;
      if (far < least && !point.group.classList.contains("off")) { best = point; least = far; }
    });
    return best;
  };
  const lineText = (frame, points, names, x, y) => {
    const point = nearest(points, x, y);
    if (!point) return "";
    const across = scale(point.x, frame.box[0], frame.box[2], frame.x[0], frame.x[1]);
    const up = scale(point.y, frame.box[3], frame.box[1], frame.y[0], frame.y[1]);
    const where = frame.title ? `, ${frame.title}` : "";
    return `${names[point.series]}${where}\n${frame.xlabel} ${show(across, frame.xlabel)}\n${frame.ylabel} ${show(up, frame.ylabel)}`;
  };
  each(document.querySelectorAll(".chart[data-frames]"), (chart) => {
    const frames = JSON.parse(chart.dataset.frames);
    const names = JSON.parse(chart.dataset.names);
    const svg = chart.querySelector("svg");
    let panels = null;
    const hide = () => { tip.hidden = true; };
    chart.addEventListener("pointerleave", hide);
    chart.addEventListener("pointermove", (event) => {
      const spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const at = frames.findIndex((frame) => inside(frame, spot.x, spot.y));
      if (at < 0) return hide();
      panels = panels || Array.from(svg.querySelectorAll(".axes"), pointsOf);
      const frame = frames[at];
      const text = frame.cells ? cellText(frame, spot.x, spot.y) : lineText(frame, panels[at] || [], names, spot.x, spot.y);
      if (!text) return hide();
      tip.textContent = text;
      tip.hidden = false;
      const width = tip.offsetWidth, room = document.documentElement.clientWidth;
      tip.style.left = `${Math.min(event.clientX + 14, Math.max(room - width - 8, 0))}px`;
      tip.style.top = `${event.clientY + 16}px`;
    });
  });
})();
