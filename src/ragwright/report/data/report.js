"use strict";
// Everything a reader sees of documents goes in by textContent: no text of theirs is ever HTML.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("report-data").textContent);
  const { measures, index } = { measures: data.measures, index: data.index };
  const LETTERS = "abcdef";
  const PAGE = 50;

  function el(name, attributes, ...inside) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (key === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
      else element.setAttribute(key, value === true ? "" : value);
    }
    for (const part of inside.flat()) if (part !== null && part !== undefined) element.append(part);
    return element;
  }

  // -- blocks: gzip in base64, opened when they are needed -----------------------------------

  const ready = document.readyState === "loading"
    ? new Promise((go) => document.addEventListener("DOMContentLoaded", go, { once: true }))
    : Promise.resolve();

  function bytes(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text);
    const codes = new Uint8Array(raw.length);
    for (let at = 0; at < raw.length; at++) codes[at] = raw.charCodeAt(at);
    return codes;
  }

  async function unzipped(id) {
    await ready;
    const stream = new Blob([bytes($(id).textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  const opened = new Map();
  function block(number) {
    let value = opened.get(number);
    if (!value) {
      value = unzipped("b" + number).then(JSON.parse);
      opened.set(number, value);
      if (opened.size > 60) opened.delete(opened.keys().next().value);
    }
    return value;
  }

  // -- the leaderboard: sorted by a click ----------------------------------------------------

  function sorted(button) {
    const table = button.closest("table");
    const heads = [...table.tHead.rows[0].cells];
    const at = heads.indexOf(button.closest("th"));
    const way = button.dataset.way === "down" ? "up" : "down";
    for (const other of table.querySelectorAll(".sort")) delete other.dataset.way;
    for (const head of heads) head.removeAttribute("aria-sort");
    button.dataset.way = way;
    heads[at].setAttribute("aria-sort", way === "up" ? "ascending" : "descending");
    const key = (row) => row.cells[at].textContent.trim().replace(/^-$/, "");  // no value
    const rows = [...table.tBodies[0].rows];
    const numeric = rows.every((row) => key(row) === "" || !isNaN(parseFloat(key(row))));
    const sign = way === "up" ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * (numeric ? parseFloat(x) - parseFloat(y) : x.localeCompare(y, undefined, { numeric: true }));
    });
    table.tBodies[0].append(...rows);
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.sort");
    if (button) sorted(button);
  });

  // -- rows ----------------------------------------------------------------------------------

  const entries = new Map(index.entries.map((entry) => [entry.id, entry]));
  const named = (id) => {
    const label = data.labels[id] || "";
    if (data.kind !== "study") return label || id;
    const rank = id === data.best ? "best" : label;
    return rank && rank !== id ? `${id} (${rank})` : id;
  };
  const once = (text) => text.replace(/(\[\d+\])(?: +\1)+/g, "$1");  // `[1] [1]` is `[1]`
  const short = (name) => (name.length > 18 ? "…" + name.slice(-17) : name);  // runs differ at the end
  const state = { trial: "", with: "", measure: 0, order: "", state: "", persona: "", find: "", row: "" };
  let questions = [];
  let items = [];
  let shown = 0;
  let turn = 0;

  const upward = (measure) => (data.scales[measures[measure]] || [0, 1, true])[2];
  const stateOf = (scores, measure, at) => data.states[LETTERS.indexOf(scores.m[measure][1][at])];
  const number = (value) => (value === null || value === undefined ? "-" : String(+value.toFixed(4)));
  const signed = (value) => (value > 0 ? "+" : "") + number(value);

  function choices(name, pairs, chosen) {
    const select = $("pick-" + name);
    select.replaceChildren(...pairs.map(([value, label]) => el("option", { value }, label)));
    select.value = chosen;
  }

  function controls() {
    const ids = [...entries.keys()];
    choices("trial", ids.map((id) => [id, short(named(id))]), state.trial);
    choices("with", [["", "nothing"], ...ids.map((id) => [id, short(named(id))])], state.with);
    choices("measure", measures.map((name, at) => [String(at), name]), String(state.measure));
    const orders = [["worst", "worst first"], ["best", "best first"], ["given", "as given"]];
    if (state.with) orders.unshift(["change", "biggest change first"], ["losses", "biggest loss first"], ["gains", "biggest gain first"]);
    choices("order", orders, state.order);
    const states = [["", "any"], ...data.states.map((name) => [name, name.replace("_", " ")]), ["moved", "changed"]];
    choices("state", state.with ? states : states.slice(0, -1), state.state);
    const personas = [...new Set(questions.map((row) => row[2]))].filter(Boolean).sort();
    choices("persona", [["", "all"], ...personas.map((name) => [name, name])], state.persona);
    $("pick-persona").closest("label").hidden = !personas.length;
    $("pick-with").closest("label").hidden = ids.length < 2;
    $("pick-measure").closest("label").hidden = measures.length < 2;
    $("find").value = state.find;
  }

  async function filled() {
    const mine = ++turn;
    const [a, b] = await Promise.all([
      block(entries.get(state.trial).scores),
      state.with ? block(entries.get(state.with).scores) : null,
    ]);
    if (mine !== turn) return;
    const m = state.measure;
    const other = new Map(b ? b.r.map((pos, at) => [pos, at]) : []);
    const words = state.find.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    items = a.r.map((pos, at) => {
      const j = other.has(pos) ? other.get(pos) : -1;
      const item = { pos, at, j, a: a.m[m][0][at], sa: stateOf(a, m, at), b: null, sb: "" };
      if (j >= 0) Object.assign(item, { b: b.m[m][0][j], sb: stateOf(b, m, j) });
      item.change = item.a !== null && item.b !== null ? item.a - item.b : null;
      return item;
    }).filter((item) => {
      const row = questions[item.pos];
      if (b && item.j < 0) return false;
      if (state.state === "moved" ? item.sa === item.sb : state.state && item.sa !== state.state && item.sb !== state.state) return false;
      if (state.persona && row[2] !== state.persona) return false;
      const searched = `${row[0]} ${row[1]} ${row[3]}`.toLocaleLowerCase();
      return words.every((word) => searched.includes(word));
    });
    const sign = upward(m) ? 1 : -1;
    const last = (value, key) => (value === null ? Infinity : key(value));
    const keys = {
      worst: (item) => (item.sa === "abstained" ? Infinity : item.a === null ? -Infinity : sign * item.a),
      best: (item) => last(item.a, (value) => -sign * value),
      change: (item) => (item.sa !== item.sb && item.change === null ? -Infinity : last(item.change, (value) => -Math.abs(value))),
      losses: (item) => last(item.change, (value) => sign * value),
      gains: (item) => last(item.change, (value) => -sign * value),
    };
    const key = keys[state.order];
    if (key) items.sort((x, y) => (key(x) === key(y) ? x.at - y.at : key(x) - key(y)));
    shown = 0;
    $("list").replaceChildren();
    const of = `${items.length} of ${a.r.length} rows of ${named(state.trial)}`;
    $("count").textContent = b ? `${of} against ${named(state.with)}, by ${measures[m]}` : `${of}, by ${measures[m] || "nothing"}`;
    const at = items.findIndex((item) => questions[item.pos][0] === state.row);
    more(Math.max(PAGE, at + 1));
    if (at >= 0) {
      const line = $("list").children[at].querySelector(".line");
      await toggled(line, items[at], true);
      line.scrollIntoView({ block: "start" });
      line.focus({ preventScroll: true });
    }
  }

  function more(count) {
    const next = items.slice(shown, shown + count);
    $("list").append(...next.map(rowLine));
    shown += next.length;
    $("more").hidden = shown >= items.length;
  }

  function valueText(value, kind) {
    return value === null ? el("span", { class: "state" }, (kind || "-").replace("_", " ")) : el("span", {}, number(value));
  }

  function rowLine(item) {
    const row = questions[item.pos];
    const values = el("span", { class: "v" });
    if (item.j >= 0) {
      values.append(valueText(item.b, item.sb), " → ", valueText(item.a, item.sa));
      if (item.change) {
        const good = item.change > 0 === upward(state.measure);
        values.append(" ", el("b", { class: good ? "up" : "down" }, signed(item.change)));
      }
    } else values.append(valueText(item.a, item.sa));
    const line = el("button", { class: "line", type: "button", "aria-expanded": "false" },
      el("span", {},
        el("span", { class: "id" }, row[2] ? `${row[0]} · ${row[2]}` : row[0]),
        el("span", { class: "q", dir: "auto" }, row[1] || "(the question was not stored)")),
      values);
    line.addEventListener("click", () => toggled(line, item));
    return el("div", { class: "row" }, line);
  }

  async function toggled(line, item, wanted) {
    const box = line.parentElement;
    const inside = box.querySelector(".opened");
    if (inside && !wanted) {
      inside.remove();
      line.setAttribute("aria-expanded", "false");
      remember("");
      return;
    }
    if (inside) return;
    line.setAttribute("aria-expanded", "true");
    const room = el("div", { class: "opened" }, "…");
    box.append(room);
    remember(questions[item.pos][0]);
    try {
      room.replaceChildren(...await details(item));
    } catch (error) {
      room.textContent = `This row cannot be opened: ${error.message}`;
    }
  }

  async function detail(id, at) {
    const entry = entries.get(id);
    const group = entry.rows.find(([first, count]) => at >= first && at < first + count);
    if (!group) return null;
    return (await block(group[2]))[at - group[0]];
  }

  async function details(item) {
    const row = questions[item.pos];
    const sides = state.with && item.j >= 0
      ? [[state.with, item.j], [state.trial, item.at]] : [[state.trial, item.at]];
    const columns = await Promise.all(sides.map(async ([id, at]) => side(id, at, await detail(id, at), sides.length > 1)));
    return [
      el("h3", { class: "small" }, "Question"), el("p", { class: "text" }, row[1] || "(not stored with this run)"),
      el("h3", { class: "small" }, "Gold"), el("div", { class: "text" }, formatted.block(row[3] || "(none)")),
      el("div", { class: sides.length > 1 ? "sides two" : "sides" }, columns),
      el("p", { class: "note" }, el("a", { href: link(row[0]) }, "Link to this row")),
    ];
  }

  function folded(title, ...inside) {
    return el("details", {}, el("summary", {}, title), ...inside);
  }

  async function side(id, at, packed, several) {
    const box = el("div", {});
    if (several) box.append(el("h3", {}, named(id)));
    if (!packed) {
      box.append(el("p", { class: "note warn" }, "The texts of this row are not in this file; its scores are here."),
        await scoreTable(id, at, {}));
      return box;
    }
    const [answer, about, hits, prompt, usage, reasons] = packed;
    box.append(el("h3", { class: "small" }, about.abstained ? "Answer (abstained)" : "Answer"),
      el("div", { class: "text answer" }, answer === null ? "(no answer)" : formatted.block(once(answer) || "(empty)")),
      el("h3", { class: "small" }, "Scores"), await scoreTable(id, at, reasons));
    if (hits.length) {
      box.append(el("h3", { class: "small" }, hits[0].length > 1 ? "Passages, best first" : "Documents, best first"));
      box.append(el("ol", { class: "hits" }, hits.map((hit, place) => hitItem(hit, place))));
    }
    if (prompt.length) {
      box.append(folded("Prompt, as it was sent", prompt.map(([role, words]) =>
        el("div", {}, el("h3", { class: "small" }, role), el("pre", { class: "prompt", tabindex: "0" }, words)))));
    }
    box.append(folded("How it was made", aboutTable(about, usage, id)));
    return box;
  }

  function hitItem(hit, place) {
    const [document_, passage, start, end, source, page, score] = hit;
    const where = [`${place + 1}. ${source || document_}`];
    if (page !== undefined && page !== null) where.push(`page ${page}`);
    if (start !== undefined && start !== null) where.push(`characters ${start}–${end}`);
    if (score !== undefined && score !== null) where.push(`score ${number(score)}`);
    const title = where.join(" · ");
    if (passage === undefined) return el("li", { class: "text" }, title);
    return el("li", {}, folded(title, el("div", { class: "text", tabindex: "0" }, formatted.block(passage))));
  }

  async function scoreTable(id, at, reasons) {
    const scores = await block(entries.get(id).scores);
    const lines = measures.map((name, m) => {
      const reason = reasons[m] || ["", "", {}];
      const parts = Object.entries(reason[2] || {}).map(([part, value]) => `${part}: ${number(value)}`).join(", ");
      const words = [reason[0], reason[1], parts].filter(Boolean).join("\n");
      const kind = stateOf(scores, m, at);
      return el("tr", {}, el("th", { scope: "row" }, name),
        el("td", { class: "num" }, number(scores.m[m][0][at])),
        el("td", { class: kind === "scored" ? "quiet" : "state" }, kind.replace("_", " ")),
        el("td", {}, words ? el("p", { class: "text" }, words) : ""));
    });
    const heads = ["measure", "value", "state", "because, in the judge's words"];
    const box = el("div", {}, el("div", { class: "scroll", tabindex: "0" }, el("table", {},
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, lines))));
    stacked(box);
    return box;
  }

  function aboutTable(about, usage, id) {
    const pairs = [...Object.entries(usage || {}), ...Object.entries(about), ...Object.entries(data.settings[id] || {})];
    const lines = pairs
      .filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length))
      .map(([key, value]) => el("tr", {}, el("th", { scope: "row" }, key),
        el("td", {}, el("span", { class: "text" }, Array.isArray(value) ? value.join("\n") : String(value)))));
    return el("table", {}, el("tbody", {}, lines));
  }

  // -- links: #trial=T007&with=T000&row=q12 ---------------------------------------------------

  function link(row) {
    const parts = new URLSearchParams({ trial: state.trial });
    if (state.with) parts.set("with", state.with);
    if (state.measure) parts.set("measure", measures[state.measure]);
    if (row) parts.set("row", row);
    return "#" + parts;
  }
  function remember(row) {
    state.row = row;
    history.replaceState(null, "", link(row));
  }
  function read() {
    const parts = new URLSearchParams(location.hash.slice(1));
    if (!["trial", "with", "row", "measure"].some((key) => parts.has(key))) return false;
    if (entries.has(parts.get("trial"))) state.trial = parts.get("trial");
    state.with = entries.has(parts.get("with")) ? parts.get("with") : "";
    const at = measures.indexOf(parts.get("measure"));
    state.measure = at < 0 ? 0 : at;
    state.row = parts.get("row") || "";
    state.order = state.with ? "change" : "worst";
    return true;
  }

  async function rows() {
    if (!$("controls") || !entries.size) return;
    const ids = [...entries.keys()];
    state.trial = entries.has(data.best) ? data.best : ids[0];
    if (data.kind === "pair" && ids.length > 1) [state.with, state.trial] = ids;
    state.order = state.with ? "change" : "worst";
    const linked = read();
    questions = await block(index.rows);
    controls();
    const changed = (name, act) => $("pick-" + name).addEventListener("change", (event) => {
      act(event.target.value);
      state.row = "";
      controls();
      filled();
    });
    changed("trial", (value) => { state.trial = value; });
    changed("with", (value) => {
      state.with = value;
      state.order = value ? "change" : "worst";
      if (!value && state.state === "moved") state.state = "";
    });
    changed("measure", (value) => { state.measure = Number(value); });
    for (const name of ["order", "state", "persona"]) changed(name, (value) => { state[name] = value; });
    $("find").addEventListener("input", (event) => { state.find = event.target.value; filled(); });
    $("controls").addEventListener("submit", (event) => event.preventDefault());
    $("more").addEventListener("click", () => more(PAGE));
    addEventListener("hashchange", () => {
      if (!read()) return;
      controls();
      filled().then(() => { if (!state.row) $("browse").scrollIntoView(); });
    });
    await filled();
    if (linked && !state.row) $("browse").scrollIntoView();
    $("list").dataset.ready = "yes";
  }

  // -- charts: the library is unpacked when the first one comes into view ---------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map();
  let library = null;

  function coloured(value, colours, key) {
    if (key === "values") return value;
    if (typeof value === "string") return value in colours ? colours[value] : value;
    if (Array.isArray(value)) return value.map((inner) => coloured(inner, colours));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, coloured(inner, colours, name)]));
    }
    return value;
  }

  function loaded() {
    library ??= unzipped("library").then((code) => {
      const script = document.createElement("script");
      script.textContent = code;
      document.head.append(script);
    });
    return library;
  }

  async function draw(box) {
    if (drawn.get(box) === dark.matches) return;
    drawn.set(box, dark.matches);
    await loaded();
    const theme = data.themes[dark.matches ? "dark" : "light"];
    const spec = coloured(data.charts[box.dataset.chart], theme.colours);
    const across = spec.encoding?.x?.axis;
    if (spec.usermeta?.narrow && box.clientWidth < 440 && across) across.labelAngle = -40;
    // Cells too narrow for their text keep the colour; the text stands in the table below.
    if (spec.usermeta?.columns * 32 > box.clientWidth - 150) spec.layer.splice(1, 1);
    try {
      await vegaEmbed(box, spec, {
        ast: true, renderer: "svg", logLevel: 1, config: theme.config, mode: "vega-lite",
        actions: { export: true, source: false, compiled: false, editor: false },
        downloadFileName: box.dataset.chart,
      });
      box.querySelector("svg.marks")?.setAttribute("aria-hidden", "true");
      box.querySelector("details > summary")?.setAttribute("aria-label", "Save this chart");
      box.dataset.drawn = "yes";
      box.dataset.theme = dark.matches ? "dark" : "light";
    } catch (error) {
      box.textContent = `This chart cannot be drawn: ${error.message}. Its numbers stand below.`;
    }
  }

  function charts() {
    const boxes = [...document.querySelectorAll("[data-chart]")];
    const seen = new IntersectionObserver((changes) => {
      for (const change of changes) if (change.isIntersecting) draw(change.target);
    }, { rootMargin: "300px" });
    boxes.forEach((box) => seen.observe(box));
    dark.addEventListener("change", () => boxes.filter((box) => drawn.has(box)).forEach(draw));
    // On paper every chart is wanted: the rest is drawn when nothing else is to be done.
    const idle = window.requestIdleCallback || ((act) => setTimeout(act, 200));
    const rest = [...boxes];
    const next = () => {
      const box = rest.shift();
      if (box) idle(() => draw(box).then(next));
    };
    addEventListener("load", () => setTimeout(next, 1500));
    addEventListener("beforeprint", () => {
      for (const box of boxes) if (!box.dataset.drawn) box.nextElementSibling.open = true;
    });
  }

  // Intervals, ids and names of runs stay on one line.
  function kept() {
    const words = /[-+]?[\d.]+ to [-+]?[\d.]+|\bp [=<] [\d.]+|(?<![\w-])[\w.:@~]+(?:-[\w.:@~]+)+/g;
    const texts = document.querySelectorAll("h1,h3,header p,.sentence,.note,.notes li,dd,th,td");
    for (const node of [...texts].flatMap((box) => [...box.childNodes])) {
      if (node.nodeType !== Node.TEXT_NODE) continue;
      const parts = [];
      let from = 0;
      for (const found of node.data.matchAll(words)) {
        if (found[0].length > 24) continue;
        parts.push(node.data.slice(from, found.index), el("span", { class: "whole" }, found[0]));
        from = found.index + found[0].length;
      }
      if (from) node.replaceWith(...parts, node.data.slice(from));
    }
  }

  charts();
  ready.then(() => { stacked(document); kept(); });
  rows().catch((error) => {
    const message = "This browser cannot open the rows: " + error.message;
    if ($("count")) $("count").textContent = message;
  });
})();
