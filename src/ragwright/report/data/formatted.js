// Markdown of documents as a reader expects it: emphasis, code, links as their text, headings,
// tables. Only text nodes are made of it: nothing of a document is ever HTML, a link or a picture.
"use strict";

const formatted = (() => {
  const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|!?\[([^\][\n]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?(?: "[^"\n]*")?\)/g;
  const ROW = /^\s*\|.*\|\s*$/, RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
  const LONGEST = 20000;

  const wrap = (name, ...inside) => {
    const element = document.createElement(name);
    element.append(...inside);
    return element;
  };

  // One line, or a piece of one.
  function inline(text) {
    const fragment = document.createDocumentFragment();
    let at = 0;
    for (const match of text.length > LONGEST ? [] : text.matchAll(INLINE)) {
      const [whole, code, bold, link] = match;
      fragment.append(text.slice(at, match.index));
      if (code !== undefined) fragment.append(wrap("code", code));
      else if (bold !== undefined) fragment.append(wrap("b", inline(bold)));
      else fragment.append(link);
      at = match.index + whole.length;
    }
    fragment.append(text.slice(at));
    return fragment;
  }

  function cells(line) {
    const inside = line.trim().replace(/^\||\|$/g, "");
    return inside.split(/(?<!\\)\|/).map((cell) => inline(cell.trim().replaceAll("\\|", "|")));
  }

  function table(lines) {
    const head = lines.length > 1 && RULE.test(lines[1]);
    const rows = lines.filter((line) => !RULE.test(line)).map((line, at) =>
      wrap("tr", ...cells(line).map((cell) => wrap(head && !at ? "th" : "td", cell))));
    return wrap("table", wrap("tbody", ...rows));
  }

  // Lines of fences that open a block of code. A passage may be cut inside one: then its first
  // fence closes code that began before it, which a fence with a language after it can not do.
  function openings(lines) {
    const fences = lines.flatMap((line, at) => (/^\s*(?:```|~~~)/.test(line) ? [at] : []));
    if (fences.length % 2 === 0) return new Set(fences.filter((_, n) => n % 2 === 0));
    const named = (at) => /^\s*(?:```|~~~)\s*\w/.test(lines[at]);
    const wrong = (first) => fences.filter((at, n) => n % 2 !== first % 2 && named(at)).length;
    if (fences.length === 1) return new Set(fences.filter(named));
    return new Set(fences.filter((_, n) => n % 2 === (wrong(1) < wrong(0) ? 1 : 0)));
  }

  // A whole text. The first of `lines` that begins a block decides how far the block goes.
  function block(text) {
    const fragment = document.createDocumentFragment(), lines = text.split("\n");
    const opens = openings(lines);
    let plain = false; // whether a line of text waits for its line break
    const add = (node, breaks) => {
      if (plain && breaks) fragment.append("\n");
      fragment.append(node);
      plain = breaks;
    };
    for (let at = 0; at < lines.length; at++) {
      const line = lines[at], heading = /^#{1,6}\s+(\S.*)$/.exec(line);
      if (/^\s*(?:```|~~~)/.test(line) && !opens.has(at)) continue; // of code that was cut
      if (opens.has(at)) {
        const mark = line.trim().slice(0, 3);
        let end = at + 1;
        while (end < lines.length && !lines[end].trim().startsWith(mark)) end++;
        add(wrap("pre", wrap("code", lines.slice(at + 1, end).join("\n"))), false);
        at = end;
      } else if (ROW.test(line)) {
        let end = at + 1;
        while (end < lines.length && ROW.test(lines[end])) end++;
        add(table(lines.slice(at, end)), false);
        at = end - 1;
      } else add(heading ? wrap("b", inline(heading[1])) : inline(line), true);
    }
    return fragment;
  }

  return { inline, block };
})();

// On a phone a table is read row by row: each cell gets the head of its column as its label, and
// the style puts them below each other. Leaderboards stay tables, which scroll sideways.
const stacked = (within) => {
  for (const table of within.querySelectorAll(".scroll > table:not(.board):not(.stack)")) {
    const heads = [...(table.tHead?.rows ?? [])].at(-1);
    if (!heads) continue;
    for (const row of [...table.tBodies].flatMap((body) => [...body.rows]))
      if (row.cells.length === heads.cells.length)
        for (const [at, cell] of [...row.cells].entries()) {
          const label = heads.cells[at].textContent.trim();
          if (!label || !cell.hasChildNodes() || cell.scope === "row") continue;
          const value = document.createElement("div");
          value.append(...cell.childNodes);
          cell.append(value);
          cell.dataset.label = label;
        }
    table.classList.add("stack");
  }
};
