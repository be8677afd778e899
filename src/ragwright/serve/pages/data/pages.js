// Every page works without this script: links and forms are the same, only slower to use.
"use strict";

// Path below which a proxy serves us; mostly empty.
const root = document.documentElement.dataset.root;

// On a phone the sections scroll sideways: the present one is shown.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Markdown of documents: whole passages by blocks, short quotes and texts with links by the line.
const format = (within) => {
  for (const found of within.querySelectorAll(".md")) {
    found.classList.remove("md");
    if (found.matches("p.text:not(.answer)")) {
      const box = document.createElement("div");
      box.className = found.className;
      box.append(formatted.block(found.textContent));
      found.replaceWith(box);
    } else {
      for (const piece of [...found.childNodes])
        if (piece.nodeType === Node.TEXT_NODE) piece.replaceWith(formatted.inline(piece.data));
    }
  }
};
format(document);
stacked(document);
document.addEventListener("htmx:load", (event) => {
  format(event.target);
  stacked(event.target);
});

// Answers as they are written. Without this, the form asks and waits for whole answers.
(() => {
  const form = document.getElementById("ask");
  if (!form || !window.fetch || !window.ReadableStream) return;
  const box = document.getElementById("turns"), stop = document.getElementById("stop");
  const why = document.getElementById("why"), kept = "kept" in box.dataset;
  document.getElementById("keys").hidden = false;
  let abort = null;

  // What was said so far, for each persona; what the server wrote belongs to it.
  const history = new Map();
  const said = (persona) => history.get(persona) ?? history.set(persona, []).get(persona);
  for (const card of box.querySelectorAll(".card"))
    said(card.dataset.persona).push(
      { role: "user", content: box.querySelector(".asked").textContent },
      { role: "assistant", content: card.querySelector(".answer").textContent });

  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  // Text and links alone: what a model writes is never read as HTML.
  const write = (into, text, notes) => {
    into.replaceChildren();
    let at = 0;
    for (const note of notes) {
      into.append(formatted.inline(text.slice(at, note.start_index)));
      const mark = text.slice(note.start_index, note.end_index);
      into.append(element("a", mark, { href: local(note.url), class: "mark", title: note.title }));
      at = note.end_index;
    }
    into.append(formatted.inline(text.slice(at)));
  };

  // Links of ours open on this server, whatever name it is reached by.
  const local = (url) => {
    const parsed = new URL(url, location.href);
    if (parsed.pathname.startsWith(`${root}/figure/`)) return parsed.pathname;
    return parsed.pathname === `${root}/source` ? parsed.pathname + parsed.search + "#passage" : "#";
  };

  async function* events(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts)
        if (part.startsWith("data: ") && part !== "data: [DONE]") yield JSON.parse(part.slice(6));
    }
  }

  const answer = async (card, model, persona, question) => {
    const text = card.querySelector(".answer"), notes = [];
    const messages = [...said(persona), { role: "user", content: question }];
    let written = "", details = null, id = "";
    const response = await fetch(root + "/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, stream: true, messages }),
      signal: abort.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const frame of events(response)) {
      if (frame.error) throw new Error(frame.error.message);
      const delta = frame.choices[0] ? frame.choices[0].delta : {};
      // Characters are counted as Python counts them: by code point.
      written += delta.content || "";
      for (const note of delta.annotations || []) notes.push(note.url_citation);
      if (frame.ragwright) ({ id, ragwright: details } = frame);
      write(text, written, places(written, notes));
    }
    if (!details) return null;
    finish(card, details, id, persona);
    history.set(persona, [...messages, { role: "assistant", content: written }]);
    return { id, details };
  };

  const places = (said, notes) => {
    const points = [...said];
    if (points.length === said.length) return notes;
    const units = (count) => points.slice(0, count).join("").length;
    return notes.map((n) => ({ ...n, start_index: units(n.start_index), end_index: units(n.end_index) }));
  };

  const passages = (found) => {
    const list = element("ol", "", { class: "cited" });
    for (const one of found) {
      const item = element("li");
      const page = one.page ? `, page ${one.page}` : "";
      item.append(element("a", (one.title || one.source) + page, { href: local(one.url) }));
      const quote = element("q");
      quote.append(formatted.inline(one.quote.length > 240 ? one.quote.slice(0, 239) + "…" : one.quote));
      item.append(quote);
      list.append(item);
    }
    return list;
  };

  // What a reader would have answered, and the sources that hold it.
  const corrections = (citations) => {
    const box = element("details");
    const answer = element("label", "The answer as it should be ");
    answer.append(element("textarea", "", { name: "correction", rows: "2", maxlength: "10000" }));
    box.append(element("summary", "Correct it"), answer);
    if (citations.length) {
      const sources = element("fieldset");
      sources.append(element("legend", "Which source holds the answer?"));
      for (const one of citations) {
        const choice = element("label", "", { class: "choice" });
        choice.append(
          element("input", "", { type: "checkbox", name: "passages", value: String(one.number) }), ` ${one.number}`);
        sources.append(choice);
      }
      box.append(sources);
    }
    box.append(element("button", "Send correction", { class: "more", name: "verdict", value: "" }));
    return box;
  };

  // The figures of all citations, each once.
  const pictures = (found) => {
    const box = element("div", "", { class: "figures" });
    const seen = new Set();
    for (const one of found.flatMap((cited) => cited.figures || [])) {
      if (seen.has(one.id)) continue;
      seen.add(one.id);
      const shown = element("figure");
      const link = element("a", "", { href: local(one.url) });
      link.append(element("img", "", {
        src: local(one.url), alt: one.caption || "Figure without a caption", loading: "lazy",
        width: String(one.width), height: String(one.height) }));
      const page = one.page ? ` · page ${one.page}` : "";
      shown.append(link, element("figcaption", (one.caption || "Figure") + page));
      box.append(shown);
    }
    return seen.size ? [box] : [];
  };

  // Feedback on an answer: a verdict with the note beside it, or a note alone.
  const feedback = (id, persona, citations) => {
    const form = element("form", "", {
      class: "feedback", "aria-label": persona ? `Feedback on the answer for ${persona}` : "Feedback on the answer" });
    const note = element("label", "Note ");
    note.append(element("input", "", { name: "note", maxlength: "10000" }));
    // Enter in the field submits by the first button: the note is sent without a verdict.
    form.append(
      element("input", "", { type: "hidden", name: "id", value: id }),
      note,
      element("button", "Send note", { class: "more", name: "verdict", value: "" }),
      element("button", "", { class: "thumb", name: "verdict", value: "accepted", "aria-label": "Good answer" }),
      element("button", "", { class: "thumb", name: "verdict", value: "rejected", "aria-label": "Bad answer" }),
      corrections(citations));
    return form;
  };

  box.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches(".feedback")) return;
    event.preventDefault();
    const verdict = event.submitter.value || form.dataset.verdict || "";
    const note = form.elements.note.value.trim();
    const correction = form.elements.correction.value.trim();
    const passages = [...form.querySelectorAll("[name=passages]:checked")].map((one) => Number(one.value));
    if (!verdict && !note && !correction && !passages.length) return;
    const reply = await fetch(root + "/v1/feedback", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id: form.elements.id.value, verdict, note, correction, passages }),
    }).catch(() => null);
    form.dataset.verdict = verdict;
    for (const button of form.querySelectorAll(".thumb"))
      button.setAttribute("aria-pressed", String(reply?.ok && button.value === verdict));
    let told = form.querySelector("[role=status]");
    if (!told) form.append((told = element("span", "", { role: "status", class: "note" })));
    told.textContent = reply?.ok ? "Stored, thank you." : "This could not be stored.";
  });

  const finish = (card, details, id, persona) => {
    if (details.citations.length)
      card.append(passages(details.citations), ...pictures(details.citations));
    if (details.closest.length)
      card.append(element("h4", "Closest passages"), passages(details.closest));
    card.append(element("p", [details.model, ...details.notes].join(" · "), { class: "note" }));
    if (kept) card.append(feedback(id, persona, details.citations));
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (abort) abort.abort();
    abort = new AbortController();
    const data = new FormData(form), question = data.get("q").trim();
    const configuration = data.get("configuration"), personas = data.getAll("persona");
    if (!question) return;
    const turn = element("section", "", { class: "turn", "aria-label": "Question and answers" });
    const cards = element("div", "", { class: "answers" });
    turn.append(element("h2", question, { class: "asked" }), cards);
    box.prepend(turn);
    form.q.value = "";
    why.replaceChildren();
    box.setAttribute("aria-busy", "true");
    stop.hidden = false;
    const results = (personas.length ? personas : [""]).map((persona) => {
      const card = element("section", "", { class: "card", "aria-label": `Answer for ${persona || "everyone"}` });
      card.append(element("h3", persona || "answer"), element("p", "…", { class: "text answer" }));
      cards.append(card);
      const model = persona ? `${configuration}/${persona}` : configuration;
      return answer(card, model, persona, question).catch((error) => {
        card.append(element("p", error.name === "AbortError" ? "stopped" : error.message, { class: "warn", role: "alert" }));
      });
    });
    const ended = (await Promise.all(results)).filter(Boolean);
    box.setAttribute("aria-busy", "false");
    stop.hidden = true;
    document.getElementById("anew").hidden = false;
    form.querySelector("label[for=q]").textContent = "Question; it may follow the answer below";
    if (!ended.length) return;
    const { details } = ended[0];
    const query = new URLSearchParams({ q: details.read_as, configuration });
    // The address of a question that stands alone; one that follows another is not asked again.
    const alone = details.read_as === question && box.childElementCount === 1;
    window.history.replaceState(null, "", alone ? "?" + new URLSearchParams([["q", question], ["configuration", configuration], ...personas.map((p) => ["persona", p])]) : location.pathname);
    if (window.htmx && details.route !== "none") window.htmx.ajax("GET", `${root}/ask/why?${query}`, { target: "#why", swap: "innerHTML" });
  });

  form.q.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  stop.addEventListener("click", () => abort && abort.abort());
})();

// Review by keyboard. Keys do nothing while a field has the focus, and can be switched off.
(() => {
  const shortcuts = document.getElementById("shortcuts"), said = document.getElementById("said");
  if (!shortcuts) return;
  const find = (id) => document.getElementById(id);
  try { shortcuts.checked = localStorage.getItem("ragwright-keys") !== "off"; } catch { /* no storage */ }
  shortcuts.addEventListener("change", () => {
    try { localStorage.setItem("ragwright-keys", shortcuts.checked ? "on" : "off"); } catch { /* no storage */ }
  });

  const edit = (open) => {
    const box = find("edit");
    if (!box) return;
    box.open = open;
    if (open) find("question").focus();
    else find("row").focus();
  };

  const press = (key) => {
    const name = key.length === 1 ? key.toLowerCase() : key;
    if (name === "e") return edit(true), true;
    if (name === "?") return (find("keys").open = !find("keys").open), true;
    const target = document.querySelector(`#review [data-key="${CSS.escape(name)}"]`);
    if (target) target.click();
    return Boolean(target);
  };

  document.addEventListener("keydown", (event) => {
    const field = event.target.closest("textarea, input, select, [contenteditable]");
    if (event.key === "Escape" && find("edit")?.open) return edit(false);
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.closest("#editing"))
      return find("editing").querySelector("button").click();
    if (field && field.type !== "checkbox") return;
    if (!shortcuts.checked || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (press(event.key)) event.preventDefault();
  });

  // The next row has the focus, and is said to those who do not see it.
  document.body.addEventListener("htmx:afterSettle", () => {
    const review = find("review");
    said.textContent = review.dataset.said;
    (find("edit")?.open ? find("question") : find("row") || review).focus({ preventScroll: false });
  });
})();

// Lines to copy.
for (const button of document.querySelectorAll(".copy")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "Copied";
  });
}

// A link of another site brings no session along. A reader who is signed in goes on to its page.
(() => {
  const next = document.getElementById("next");
  if (!next || !window.fetch || document.getElementById("wrong")) return;
  fetch(root + "/session").then((reply) => reply.json()).then((found) => {
    if (found.signed_in) location.replace(root + next.value);
  });
})();
