"use strict";
// Everything a model said reaches the page as data and is written with textContent: never as HTML.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const show = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value !== "number") return String(value);
    if (Number.isInteger(value)) return String(value);
    const size = Math.abs(value);
    if (size < 0.001) return value.toExponential(1);
    return size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  };

  // ---- light and dark
  const root = document.documentElement;
  const dark = () =>
    (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const remember = (theme) => { try { localStorage.setItem("theme", theme); } catch { /* private window */ } };
  try { const kept = localStorage.getItem("theme"); if (kept) root.dataset.theme = kept; } catch { /* private window */ }
  const toggle = document.getElementById("theme");
  const nameToggle = () => {
    toggle.textContent = dark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", dark() ? "Switch to light colours" : "Switch to dark colours");
  };
  toggle.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remember(root.dataset.theme);
    recolour();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => recolour());
  const recolour = () => {
    nameToggle();
    for (const figure of document.querySelectorAll("[data-chart][data-drawn]")) draw(figure);
    for (const graph of document.querySelectorAll("[data-graph]")) graph.dispatchEvent(new Event("recolour"));
  };
  nameToggle();

  // ---- tables: sort, search, more
  const STEP = 25;
  const buildTable = (holder) => {
    if (holder.dataset.built) return;
    holder.dataset.built = "yes";
    const { columns, rows, caption } = read(holder.dataset.table);
    const numeric = columns.map((_, i) => rows.some((r) => typeof r[i] === "number") && rows.every((r) => r[i] === null || typeof r[i] === "number"));
    const state = { by: -1, down: false, find: "", shown: STEP };
    const tools = make("div", null, { class: "tools" });
    const search = make("input", null, { type: "search", size: "18" });
    const label = make("label", "Search");
    label.append(search);
    const count = make("span", "", { class: "count", role: "status", "aria-live": "polite" });
    tools.append(label, count);
    const table = make("table");
    table.append(make("caption", caption));
    const head = make("tr");
    columns.forEach((name, i) => {
      const cell = make("th", null, { scope: "col", "aria-sort": "none", class: numeric[i] ? "number" : "text" });
      const button = make("button", name, { type: "button" });
      button.addEventListener("click", () => {
        state.down = state.by === i ? !state.down : numeric[i];
        state.by = i;
        render();
      });
      cell.append(button);
      head.append(cell);
    });
    const thead = make("thead");
    thead.append(head);
    const body = make("tbody");
    table.append(thead, body);
    const scroll = make("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": caption });
    scroll.append(table);
    const more = make("button", "", { type: "button" });
    more.addEventListener("click", () => { state.shown = state.shown < rows.length ? rows.length : STEP; render(); });
    search.addEventListener("input", () => { state.find = search.value.trim().toLocaleLowerCase(); render(); });
    const order = new Intl.Collator(undefined, { numeric: true });
    const compare = (a, b) => {
      const [x, y] = [a[state.by], b[state.by]];
      if (x === null || y === null) return (x === null) - (y === null); // missing values last, either way
      const sign = state.down ? -1 : 1;
      return sign * (numeric[state.by] ? x - y : order.compare(String(x), String(y)));
    };
    const render = () => {
      let found = rows;
      if (state.find) found = rows.filter((row) => row.some((cell) => cell !== null && show(cell).toLocaleLowerCase().includes(state.find)));
      if (state.by >= 0) found = [...found].sort(compare);
      const visible = found.slice(0, state.shown);
      body.replaceChildren(...visible.map((row) => {
        const line = make("tr");
        row.forEach((cell, i) => {
          const made = make("td", show(cell), { class: numeric[i] ? "number" : "text" });
          if (typeof cell === "number" && !Number.isInteger(cell)) made.title = String(cell);
          line.append(made);
        });
        return line;
      }));
      [...head.children].forEach((cell, i) =>
        cell.setAttribute("aria-sort", i !== state.by ? "none" : state.down ? "descending" : "ascending"));
      count.textContent = `${found.length} of ${rows.length} row${rows.length === 1 ? "" : "s"}`;
      more.hidden = found.length <= STEP;
      more.textContent = state.shown >= rows.length ? "Show fewer" : `Show all ${found.length}`;
    };
    holder.append(tools, scroll, more);
    render();
  };

  // ---- examples: a text on demand, significant words marked
  const fold = (token) => token.toLocaleLowerCase();
  const buildExamples = (holder) => {
    if (holder.dataset.built) return;
    holder.dataset.built = "yes";
    const { groups, words, texts } = read(holder.dataset.examples);
    const tools = make("div", null, { class: "tools" });
    const choice = make("select");
    groups.forEach((group) => choice.append(make("option", group || "(no group)", { value: group })));
    const label = make("label", "Group");
    label.append(choice);
    tools.append(label);
    const list = make("div");
    const render = () => {
      const marked = new Set(words[choice.value] || []);
      list.replaceChildren(...texts.filter((t) => t.group === choice.value).map((t) => {
        const example = make("div", null, { class: "example" });
        example.append(make("div", t.prompt, { class: "quiet" }));
        const quote = make("blockquote");
        for (const piece of t.text.split(/(\s+)/)) {
          const bare = fold(piece).replace(/[^a-z]/g, "");
          const whole = fold(piece).replace(/^[^\p{L}]+|[^\p{L}]+$/gu, "");
          quote.append((bare && marked.has(bare)) || (whole && marked.has(whole)) ? make("mark", piece) : piece);
        }
        const note = [t.note, t.middle ? "from the middle of the order" : ""].filter(Boolean).join("; ");
        example.append(quote, make("div", note, { class: "quiet" }));
        return example;
      }));
    };
    choice.addEventListener("change", render);
    holder.append(tools, list);
    render();
  };

  // ---- words: one opens its texts, another press closes them
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-word]");
    if (!button) return;
    const row = button.closest(".wordrow");
    const open = button.getAttribute("aria-expanded") === "true";
    row.querySelector(".context")?.remove();
    row.querySelectorAll("button[data-word]").forEach((other) => other.setAttribute("aria-expanded", "false"));
    if (open) return;
    button.setAttribute("aria-expanded", "true");
    const holder = make("div", null, { class: "context", role: "region", "aria-label": `Texts with ${button.textContent}` });
    for (const [before, word, after] of read(button.dataset.contexts)[button.dataset.word]) {
      const example = make("div", null, { class: "example" });
      const quote = make("blockquote");
      quote.append(before, make("mark", word), after);
      example.append(quote);
      holder.append(example);
    }
    row.append(holder);
  });

  // ---- charts
  const tip = document.getElementById("tip");
  const tooltip = (_, event, __, value) => {
    if (value === null || value === undefined || value === "") { tip.style.visibility = "hidden"; return; }
    const lines = typeof value === "object" ? Object.entries(value) : [["", value]];
    tip.replaceChildren(...lines.map(([name, content]) => {
      const line = make("div");
      if (name) line.append(make("span", name, { class: "name" }));
      line.append(show(typeof content === "object" ? JSON.stringify(content) : content));
      return line;
    }));
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const y = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8);
    tip.style.left = `${Math.max(4, x)}px`;
    tip.style.top = `${Math.max(4, y)}px`;
    tip.style.visibility = "visible";
  };
  const faceted = (spec) =>
    ["facet", "concat", "hconcat", "vconcat", "repeat"].some((key) => key in spec) ||
    ["row", "column", "facet"].some((key) => key in (spec.encoding || {}));
  const drawing = new WeakMap();
  const draw = async (figure) => {
    figure.dataset.drawn = "yes";
    const spec = read(figure.dataset.chart);
    const own = spec.config || {};
    delete spec.config;
    if (!faceted(spec) && (typeof spec.width !== "object" || spec.width === null)) {
      spec.width = "container";
    }
    drawing.get(figure)?.finalize();
    const config = { ...own, ...read(dark() ? "look-dark" : "look-light") };
    try {
      const { view } = await embedChart(figure.querySelector(".draw"), spec, {
        config, ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip, mode: "vega-lite",
      });
      drawing.set(figure, view);
    } catch (error) {
      figure.querySelector(".draw").textContent = `This figure could not be drawn (${error.message}); the table has its numbers.`;
    }
  };
  const waiting = [...document.querySelectorAll("[data-chart]")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting && !entry.target.dataset.drawn) { seen.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "700px" });
  waiting.forEach((figure) => seen.observe(figure));
  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 200));
  const drawRest = () => idle(async () => { // so that a printed page has them all
    const next = waiting.find((figure) => !figure.dataset.drawn);
    if (next) { await draw(next); drawRest(); }
  });
  drawRest();
  for (const button of document.querySelectorAll("[data-svg]")) {
    button.addEventListener("click", async () => {
      const drawn = drawing.get(button.closest("[data-chart]"));
      if (!drawn) return; // still being drawn
      const file = URL.createObjectURL(new Blob([await drawn.toSVG()], { type: "image/svg+xml" }));
      make("a", "", { href: file, download: `${button.dataset.svg}.svg` }).click();
      setTimeout(() => URL.revokeObjectURL(file), 60000);
    });
  }

  // ---- folding: build what is opened
  const build = (fold) => {
    fold.querySelectorAll("[data-table]").forEach(buildTable);
    fold.querySelectorAll("[data-examples]").forEach(buildExamples);
    fold.querySelectorAll("[data-graph]").forEach((holder) => buildGraph(holder));
  };
  for (const fold of document.querySelectorAll("details.fold")) {
    fold.addEventListener("toggle", () => { if (fold.open) build(fold); });
    if (fold.open) build(fold);
  }
  const openTarget = () => { // a link to folded texts opens them
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView(); }
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#texts-']");
    const target = link && document.getElementById(link.getAttribute("href").slice(1));
    if (target) target.open = true; // before the browser scrolls to it
  });
  openTarget();
  document.querySelectorAll("[data-table]").forEach((holder) => { if (!holder.closest("details")) buildTable(holder); });
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details.fold:not(.examples)")) { build(fold); fold.open = true; }
  });

  // ---- graph: nodes pushed apart, links pulling together; drag, zoom, hover, choose
  const buildGraph = (holder) => {
    if (holder.dataset.built) return;
    holder.dataset.built = "yes";
    const { nodes: all, links: allLinks, kinds } = read(holder.dataset.graph);
    const tools = make("div", null, { class: "tools" });
    const choice = make("select");
    kinds.forEach((kind) => choice.append(make("option", kind, { value: kind })));
    const label = make("label", "Show");
    label.append(choice);
    const search = make("input", null, { type: "search", size: "18" });
    const find = make("label", "Find");
    find.append(search);
    const reset = make("button", "Whole graph", { type: "button" });
    const status = make("span", "", { class: "count", role: "status" });
    tools.append(...(kinds.length > 1 ? [label] : []), find, reset, status);
    const canvas = make("canvas", null, { tabindex: "0", role: "img", "aria-label": "Graph; the table below has the same links" });
    holder.append(tools, canvas);
    const pen = canvas.getContext("2d");
    let nodes, links, near, view, heat, hover, picked;
    const ink = (name) => getComputedStyle(root).getPropertyValue(name).trim();
    const start = () => {
      const chosen = kinds.length > 1 ? choice.value : null;
      const some = allLinks.filter((link) => chosen === null || link.kind === chosen);
      const used = new Map();
      for (const link of some) for (const end of [link.source, link.target]) used.set(end, (used.get(end) || 0) + 1);
      nodes = all.filter((node) => used.has(node.id)).map((node, i) => {
        const angle = i * 2.399963, radius = 11 * Math.sqrt(i + 1); // a sunflower: even, and the same each time
        return { ...node, degree: used.get(node.id), x: radius * Math.cos(angle), y: radius * Math.sin(angle), vx: 0, vy: 0 };
      });
      const place = new Map(nodes.map((node) => [node.id, node]));
      links = some.map((link) => ({ ...link, source: place.get(link.source), target: place.get(link.target) }));
      near = new Map(nodes.map((node) => [node, new Set()]));
      for (const link of links) { near.get(link.source).add(link.target); near.get(link.target).add(link.source); }
      view = null; heat = 1; hover = picked = null;
      const many = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
      status.textContent = `${many(nodes.length, "node")}, ${many(links.length, "link")}`;
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
      for (let i = 0; i < (still ? 250 : 80); i++) step();
      if (still) heat = 0;
      requestAnimationFrame(frame);
    };
    const step = () => {
      heat *= 0.985;
      for (let i = 0; i < nodes.length; i++) {
        const a = nodes[i];
        for (let j = i + 1; j < nodes.length; j++) {
          const b = nodes[j];
          const dx = a.x - b.x, dy = a.y - b.y, d2 = dx * dx + dy * dy + 25;
          if (d2 > 90000) continue;
          const push = 900 * heat / d2;
          a.vx += dx * push / Math.sqrt(d2) * 3; a.vy += dy * push / Math.sqrt(d2) * 3;
          b.vx -= dx * push / Math.sqrt(d2) * 3; b.vy -= dy * push / Math.sqrt(d2) * 3;
        }
        a.vx -= a.x * 0.006 * heat; a.vy -= a.y * 0.006 * heat;
      }
      for (const { source: a, target: b } of links) {
        const dx = b.x - a.x, dy = b.y - a.y, d = Math.hypot(dx, dy) || 1;
        const pull = (d - 60) / d * 0.05 * heat / Math.sqrt(Math.min(a.degree, b.degree));
        a.vx += dx * pull; a.vy += dy * pull; b.vx -= dx * pull; b.vy -= dy * pull;
      }
      for (const node of nodes) {
        if (node !== held) { node.x += node.vx; node.y += node.vy; }
        node.vx *= 0.6; node.vy *= 0.6;
      }
    };
    const fit = () => {
      const xs = nodes.map((n) => n.x), ys = nodes.map((n) => n.y);
      const w = Math.max(...xs) - Math.min(...xs) + 120, h = Math.max(...ys) - Math.min(...ys) + 80;
      const k = Math.min(canvas.clientWidth / w, canvas.clientHeight / h, 2);
      return { k, x: canvas.clientWidth / 2 - k * (Math.max(...xs) + Math.min(...xs)) / 2, y: canvas.clientHeight / 2 - k * (Math.max(...ys) + Math.min(...ys)) / 2 };
    };
    const frame = () => {
      if (!canvas.isConnected || !nodes.length) return;
      if (heat > 0.02) step();
      const ratio = devicePixelRatio || 1;
      canvas.width = canvas.clientWidth * ratio; canvas.height = canvas.clientHeight * ratio;
      const { k, x, y } = view || fit();
      pen.setTransform(ratio * k, 0, 0, ratio * k, ratio * x, ratio * y);
      const focus = picked || hover;
      const close = focus ? near.get(focus) : null;
      const text = search.value.trim().toLocaleLowerCase();
      const hit = (node) => text && node.label.toLocaleLowerCase().includes(text);
      const lit = (node) => (focus ? node === focus || close.has(node) : text ? hit(node) : true);
      const [line, accent, quiet, full] = ["--null", "--accent", "--quiet", "--ink"].map(ink);
      pen.lineWidth = 0.8 / k;
      for (const link of links) {
        const on = focus ? link.source === focus || link.target === focus : !text;
        pen.globalAlpha = on ? (focus ? 0.9 : 0.55) : 0.1;
        pen.strokeStyle = line;
        pen.beginPath(); pen.moveTo(link.source.x, link.source.y); pen.lineTo(link.target.x, link.target.y); pen.stroke();
        if (focus && on && link.label) {
          pen.fillStyle = quiet; pen.font = `${11 / k}px sans-serif`; pen.textAlign = "center";
          pen.fillText(link.label.slice(0, 40), (link.source.x + link.target.x) / 2, (link.source.y + link.target.y) / 2);
        }
      }
      pen.textAlign = "left";
      for (const node of nodes) {
        pen.globalAlpha = lit(node) ? 1 : 0.15;
        pen.fillStyle = node.centre ? accent : quiet;
        pen.beginPath(); pen.arc(node.x, node.y, (node.centre ? 6 : 2.5) / Math.sqrt(k), 0, 7); pen.fill();
        if (node.centre || (lit(node) && (focus || text || k > 1.3))) {
          pen.fillStyle = full; pen.font = `${node.centre ? "600 " : ""}${(node.centre ? 13 : 11) / k}px sans-serif`;
          pen.fillText(node.label.slice(0, 48), node.x + 8 / k, node.y + 4 / k);
        }
      }
      pen.globalAlpha = 1;
      if (heat > 0.02) requestAnimationFrame(frame);
    };
    const again = () => requestAnimationFrame(frame);
    const point = (event) => {
      const box = canvas.getBoundingClientRect(), { k, x, y } = view || fit();
      const px = (event.clientX - box.left - x) / k, py = (event.clientY - box.top - y) / k;
      let best = null, least = (12 / k) ** 2;
      for (const node of nodes) { const d = (node.x - px) ** 2 + (node.y - py) ** 2; if (d < least) { least = d; best = node; } }
      return { best, px, py };
    };
    let held = null, pan = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      held = point(event).best;
      pan = { x: event.clientX, y: event.clientY, view: view || fit(), moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!pan) { const { best } = point(event); if (best !== hover) { hover = best; again(); } return; }
      const dx = event.clientX - pan.x, dy = event.clientY - pan.y;
      if (Math.hypot(dx, dy) > 3) pan.moved = true;
      if (held) { view = pan.view; const { px, py } = point(event); held.x = px; held.y = py; }
      else if (pan.moved) view = { ...pan.view, x: pan.view.x + dx, y: pan.view.y + dy };
      again();
    });
    canvas.addEventListener("pointerup", () => {
      if (pan && !pan.moved) picked = held === picked ? null : held;
      held = pan = null;
      again();
    });
    const zoom = (factor, cx, cy) => {
      const { k, x, y } = view || fit();
      const next = Math.min(6, Math.max(0.1, k * factor));
      view = { k: next, x: cx - (cx - x) * next / k, y: cy - (cy - y) * next / k };
      again();
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
      const middle = [canvas.clientWidth / 2, canvas.clientHeight / 2];
      if (event.key in moves) { const now = view || fit(); view = { ...now, x: now.x + moves[event.key][0], y: now.y + moves[event.key][1] }; again(); }
      else if (event.key === "+" || event.key === "=") zoom(1.25, ...middle);
      else if (event.key === "-") zoom(0.8, ...middle);
      else return;
      event.preventDefault();
    });
    choice.addEventListener("change", start);
    search.addEventListener("input", again);
    reset.addEventListener("click", () => { view = null; picked = null; search.value = ""; again(); });
    holder.addEventListener("recolour", again);
    addEventListener("resize", again);
    start();
  };
})();
