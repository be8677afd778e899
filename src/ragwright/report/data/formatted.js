// Markdown of documents as a reader expects it: emphasis, code, links as their text, headings,
// tables. Only text nodes are made of it: nothing of a document is ever HTML, a link or a picture.
"use strict";

const formatted = (() => {
  const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|!?\[([^\][\n]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?(?: "[^"\n]*")?\)/g;
  const ROW = /^\s*\|.*\|\s*$/, RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
  const LONGEST = 20000;

  const made = (name, ...inside) => {
    const element = document.createElement(name);
    element.append(...inside);
    return element;
  };

  // One line, or a piece of one.
  function inline(text) {
    const found = document.createDocumentFragment();
    let at = 0;
    for (const match of text.length > LONGEST ? [] : text.matchAll(INLINE)) {
      const [whole, code, bold, link] = match;
      found.append(text.slice(at, match.index));
      if (code !== undefined) found.append(made("code", code));
      else if (bold !== undefined) found.append(made("b", inline(bold)));
      else found.append(link);
      at = match.index + whole.length;
    }
    found.append(text.slice(at));
    return found;
  }

  function cells(line) {
    const inside = line.trim().replace(/^\||\|$/g, "");
    return inside.split(/(?<!\\)\|/).map((cell) => inline(cell.trim().replaceAll("\\|", "|")));
  }

  function table(lines) {
    const head = lines.length > 1 && RULE.test(lines[1]);
    const rows = lines.filter((line) => !RULE.test(line)).map((line, at) =>
      made("tr", ...cells(line).map((cell) => made(head && !at ? "th" : "td", cell))));
    return made("table", made("tbody", ...rows));
  }

  // A whole text. The first of `lines` that begins a block decides how far the block goes.
  function block(text) {
    const found = document.createDocumentFragment(), lines = text.split("\n");
    let plain = false; // whether a line of text waits for its line break
    const add = (node, breaks) => {
      if (plain && breaks) found.append("\n");
      found.append(node);
      plain = breaks;
    };
    for (let at = 0; at < lines.length; at++) {
      const line = lines[at], heading = /^#{1,6}\s+(\S.*)$/.exec(line);
      if (/^\s*(?:```|~~~)/.test(line)) {
        const mark = line.trim().slice(0, 3);
        let end = at + 1;
        while (end < lines.length && !lines[end].trim().startsWith(mark)) end++;
        add(made("pre", made("code", lines.slice(at + 1, end).join("\n"))), false);
        at = end;
      } else if (ROW.test(line)) {
        let end = at + 1;
        while (end < lines.length && ROW.test(lines[end])) end++;
        add(table(lines.slice(at, end)), false);
        at = end - 1;
      } else add(heading ? made("b", inline(heading[1])) : inline(line), true);
    }
    return found;
  }

  return { inline, block };
})();
