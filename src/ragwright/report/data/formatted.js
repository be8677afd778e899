// Markdown of documents as a reader expects it: emphasis, code, links as their text, headings,
// tables. Only text nodes are made of it: nothing of a document is ever HTML, a link or a picture.
"use strict";

const formatted = (() => {
  const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![\w*])\*(?=\S)([^*\n]+)(?<=\S)\*(?![\w*])|!?\[([^\][\n]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?(?: "[^"\n]*")?\)/g;
  const ROW = /^\s*\|.*\|\s*$/, RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
  const ITEM = /^(\s*)(?:[-*+]|(\d{1,3})[.)])\s+(\S.*)$/;
  const LONGEST = 20000;
  const NARROWEST = 78, WIDEST = 130; // characters of lines that an editor has broken

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
      const [whole, code, bold, slanted, link] = match;
      fragment.append(text.slice(at, match.index));
      if (code !== undefined) fragment.append(wrap("code", code));
      else if (bold !== undefined) fragment.append(wrap("b", inline(bold)));
      else if (slanted !== undefined) fragment.append(wrap("em", inline(slanted)));
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

  // Whether a line was broken where it was because the next word did not fit.
  const broken = (line, next) => line.length <= WIDEST && next !== undefined && /^[^\s#|>]/.test(next)
    && !ITEM.test(next) && !/^(?:```|~~~)/.test(next) && line.length + 1 + next.split(" ", 1)[0].length >= NARROWEST;

  // The lines of a list from `at` on, and the number of the line behind them.
  function list(lines, at) {
    const box = wrap(ITEM.exec(lines[at])[2] ? "ol" : "ul");
    for (let item; at < lines.length && (item = ITEM.exec(lines[at]));) {
      if (Boolean(item[2]) !== (box.tagName === "OL")) break;
      let text = item[3];
      for (at++; at < lines.length && /^\s{2,}\S/.test(lines[at]) && !ITEM.test(lines[at]); at++) text += ` ${lines[at].trim()}`;
      const entry = wrap("li", inline(text));
      if (item[2]) entry.value = Number(item[2]);
      if (item[1].length > 1) entry.className = "deep";
      box.append(entry);
    }
    return [box, at];
  }

  // A whole text. The first of `lines` that begins a block decides how far the block goes.
  function block(text) {
    const fragment = document.createDocumentFragment(), lines = text.split("\n");
    const opens = openings(lines);
    let plain = ""; // what stands between the last line of text and the next one
    const add = (node, breaks) => {
      if (plain && breaks) fragment.append(plain);
      fragment.append(node);
      plain = breaks;
    };
    for (let at = 0; at < lines.length; at++) {
      const line = lines[at];
      if (!line.trim() && plain === "" && fragment.hasChildNodes()) continue; // a block has its margin
      const heading = /^#{1,6}\s+(\S.*)$/.exec(line);
      if (/^\s*(?:```|~~~)/.test(line) && !opens.has(at)) continue; // of code that was cut
      if (opens.has(at)) {
        const mark = line.trim().slice(0, 3);
        let end = at + 1;
        while (end < lines.length && !lines[end].trim().startsWith(mark)) end++;
        add(wrap("pre", wrap("code", lines.slice(at + 1, end).join("\n"))), "");
        at = end;
      } else if (ROW.test(line)) {
        let end = at + 1;
        while (end < lines.length && ROW.test(lines[end])) end++;
        add(table(lines.slice(at, end)), "");
        at = end - 1;
      } else if (ITEM.test(line)) {
        const [box, end] = list(lines, at);
        add(box, "");
        at = end - 1;
      } else add(heading ? wrap("b", inline(heading[1])) : inline(line), !heading && broken(line, lines[at + 1]) ? " " : "\n");
    }
    return fragment;
  }

  // A whole text with elements in it: a passage that is marked keeps its bounds, a link its place.
  // Both are told from text by characters that no text may hold.
  const MARKED = /^\s*(?:#{1,6}\s+|(?:[-*+]|\d{1,3}[.)])\s+|\||(?:```|~~~).*\n)?/, BEHIND = /(?:\s|\|(?=\s*$)|\n(?:```|~~~)(?=\s*$))*$/;
  function within(nodes) {
    const kept = [];
    let text = "";
    for (const node of nodes)
      if (node.nodeName === "MARK") {
        const whole = node.textContent;
        const from = !text || text.endsWith("\n") ? MARKED.exec(whole)[0].length : 0;
        const to = Math.max(from, BEHIND.exec(whole).index);
        text += `${whole.slice(0, from)}\uFDD1${whole.slice(from, to)}\uFDD2${whole.slice(to)}`;
      } else if (node.nodeType === Node.TEXT_NODE) text += node.data.replace(/[\uFDD0-\uFDD2]/g, "");
      else text += `\uFDD0${kept.push(node) - 1}\uFDD0`;
    const fragment = block(text), walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) found.push(walker.currentNode);
    let inside = false, marks = 0;
    for (const piece of found)
      piece.replaceWith(...piece.data.split(/(\uFDD0\d+\uFDD0|[\uFDD1\uFDD2])/).flatMap((part) => {
        if (part === "\uFDD1" || part === "\uFDD2") return (inside = part === "\uFDD1"), [];
        const link = /^\uFDD0(\d+)\uFDD0$/.exec(part);
        if (link) return [kept[Number(link[1])]];
        if (!inside || /^\s*$/.test(part) && part !== " ") return part ? [part] : [];
        const mark = wrap("mark", part);
        if (!marks++) for (const node of nodes) if (node.nodeName === "MARK" && node.id) mark.id = node.id;
        return [mark];
      }));
    return fragment;
  }

  return { inline, block, within };
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
