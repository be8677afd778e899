// Every page works without this script: links and forms are the same, only slower to use.
"use strict";

// Path below which a proxy serves us; mostly empty.
const root = document.documentElement.dataset.root;

// On a phone the sections scroll sideways: the present one is shown.
// Not scrollIntoView, from which on the keyboard would go.
const sections = document.querySelector("nav[aria-label=Sections]"), here = sections?.querySelector("[aria-current]");
if (here) sections.scrollLeft = here.offsetLeft - (sections.clientWidth - here.offsetWidth) / 2;

// Markdown of documents: whole passages by blocks, short quotes and texts with links by the line.
const format = (within) => {
  for (const element of within.querySelectorAll(".md")) {
    element.classList.remove("md");
    if (element.matches("p.text, pre.text")) {
      const box = document.createElement("div");
      box.className = element.className;
      box.append(formatted.within([...element.childNodes]));
      element.replaceWith(box);
    } else {
      for (const piece of [...element.childNodes])
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

// Conversations are kept in this browser alone, for one person with the same rights. They are
// deleted when another one comes, and when this one signs out.
const store = (() => {
  const key = `ragwright-threads${root}`, owner = document.documentElement.dataset.owner;
  const read = () => {
    try {
      const held = JSON.parse(localStorage.getItem(key));
      return held?.owner === owner ? held.threads : null;
    } catch { return null; }
  };
  const clear = () => { try { localStorage.removeItem(key); } catch { /* no storage */ } };
  const write = (threads) => {
    // The oldest go when the storage is full.
    for (let kept = threads.slice(0, 100); kept.length; kept.pop())
      try { return localStorage.setItem(key, JSON.stringify({ owner, threads: kept })); } catch { /* full */ }
    clear();
  };
  if (!read()) clear();
  document.querySelector("form[action$='/logout']")?.addEventListener("submit", clear);
  return {
    all: () => read() || [],
    put: (thread) => write([thread, ...(read() || []).filter((known) => known.id !== thread.id)]),
    remove: (id) => write((read() || []).filter((known) => known.id !== id)),
    clear,
  };
})();

// Answers as they are written. Without this, the form asks and waits for whole answers.
(() => {
  const form = document.getElementById("ask");
  if (!form || !window.fetch || !window.ReadableStream) return;
  const box = document.getElementById("turns"), stop = document.getElementById("stop");
  const rail = document.getElementById("threads"), main = form.closest("main");
  const title = document.querySelector("h1");
  document.getElementById("keys").hidden = false;
  let abort = null, thread = null;

  const element = (name, text, attributes = {}) => {
    const created = document.createElement(name);
    if (text) created.textContent = text;
    for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
    return created;
  };
  const html = (text) => {
    const range = document.createRange().createContextualFragment(text);
    format(range);
    return range;
  };

  // Text and links alone: what a model writes is never read as HTML.
  const write = (into, text, marks) => {
    const nodes = [];
    let at = 0;
    for (const mark of marks) {
      nodes.push(document.createTextNode(text.slice(at, mark.start)), element("a", text.slice(mark.start, mark.end), {
        href: root + mark.url, class: "mark", title: mark.title }));
      at = mark.end;
    }
    into.replaceChildren(formatted.within([...nodes, document.createTextNode(text.slice(at))]));
  };

  // Characters are counted as Python counts them: by code point.
  const places = (text, marks) => {
    const points = [...text];
    if (points.length === text.length) return marks;
    const units = (count) => points.slice(0, count).join("").length;
    return marks.map((mark) => ({ ...mark, start: units(mark.start), end: units(mark.end) }));
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
        if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
    }
  }

  // One answer, written into its card; the card of the server takes its place at the end.
  const answer = async (card, fields) => {
    const marks = [];
    let text = "", last = null;
    const response = await fetch(root + "/ask/stream", {
      method: "POST", body: new URLSearchParams(fields), signal: abort.signal });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const frame of events(response)) {
      if (frame.error) throw new Error(frame.error.message);
      if (frame.card) { last = frame; continue; }
      text += frame.text;
      marks.push(...frame.marks);
      write(card.querySelector(".answer"), text, places(text, marks));
    }
    if (last) card.replaceWith(html(last.card));
    return last;
  };

  const failed = (card, error) => {
    const stopped = error.name === "AbortError";
    if (stopped && card.querySelector(".answer").textContent === "…") card.querySelector(".answer").remove();
    card.append(element("p", stopped ? "Stopped. This answer is not kept; edit the question to ask again." : error.message,
      { class: "warn", role: stopped ? "status" : "alert" }));
  };

  // The part of the page for a question, behind the turns that stay.
  const opened = (question, number) => {
    while (box.children.length > number) box.lastElementChild.remove();
    const turn = document.getElementById("new-turn").content.firstElementChild.cloneNode(true);
    const edit = document.getElementById("again").content.firstElementChild.cloneNode(true);
    turn.querySelector(".asked").textContent = edit.querySelector("textarea").value = question;
    turn.querySelector(".asked").after(edit);
    box.append(turn);
    main.classList.add("going");
    document.getElementById("inside")?.remove();
    form.q.placeholder = "Ask a further question";
    return turn.querySelector(".answers");
  };

  const ask = async (question, number) => {
    if (abort) abort.abort();
    const mine = abort = new AbortController();
    const data = new FormData(form), persona = data.get("persona") || "";
    const choices = [...form.querySelectorAll("[type=radio][name=persona]")].map((radio) => radio.value);
    const personas = persona === "*" ? choices.filter((name) => name !== "*") : [persona];
    const now = thread ??= { id: Date.now().toString(36) + Math.random().toString(36).slice(2, 8), turns: [] };
    now.turns.length = Math.min(now.turns.length, number);
    const answers = opened(question, number);
    const earlier = JSON.stringify(now.turns.map((turn) => [turn.question, turn.text]).slice(-20));
    form.q.value = "";
    if (!number) title.textContent = question.slice(0, 80);
    box.setAttribute("aria-busy", "true");
    stop.hidden = false;
    answers.closest(".turn").scrollIntoView({ block: "start" });
    const results = personas.map((name) => {
      const card = element("section", "", { class: "card", "aria-label": `Answer for ${name || "everyone"}` });
      if (name) card.append(element("h3", name));
      card.append(element("div", "…", { class: "text answer" }));
      answers.append(card);
      const fields = { q: question, persona: name, configuration: data.get("configuration"), earlier };
      return answer(card, fields).catch((error) => failed(card, error));
    });
    const ended = (await Promise.all(results)).filter(Boolean);
    if (abort !== mine) return;
    box.setAttribute("aria-busy", "false");
    stop.hidden = true;
    if (!ended.length) return;
    now.turns.push({ question, text: ended[0].text, cards: ended.map((frame) => frame.card) });
    store.put(now);
    document.dispatchEvent(new CustomEvent("answered", { detail: answers }));
    window.history.replaceState(null, "", `#${now.id}`);
    list();
  };

  // Shows a kept conversation, as it was when it was asked.
  const show = () => {
    const known = store.all().find((one) => `#${one.id}` === location.hash);
    if (!known || known.id === thread?.id) return;
    if (abort) abort.abort();
    thread = known;
    box.replaceChildren();
    known.turns.forEach((turn, number) => opened(turn.question, number).append(...turn.cards.map(html)));
    title.textContent = known.turns[0].question.slice(0, 80);
    list();
    box.lastElementChild.scrollIntoView({ block: "start" });
  };

  const list = () => {
    const threads = store.all();
    rail.hidden = !threads.length;
    rail.querySelector("ol").replaceChildren(...threads.map((one) => {
      const name = one.turns[0].question.slice(0, 80), item = element("li");
      const link = element("a", name, { href: `#${one.id}` });
      if (one.id === thread?.id) link.setAttribute("aria-current", "page");
      item.append(link, element("button", "×", { type: "button", class: "plain", "aria-label": `Delete “${name}”`, value: one.id }));
      return item;
    }));
  };
  rail.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.value) store.remove(button.value);
    else store.clear();
    if (!button.value || button.value === thread?.id) location.assign(root + "/");
    else list();
  });

  document.getElementById("inside")?.addEventListener("click", (event) => {
    const link = event.target.closest(".starters a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    ask(link.textContent, 0);
    form.q.focus({ preventScroll: true });
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const question = form.q.value.trim();
    if (question) ask(question, thread ? thread.turns.length : 0);
  });
  box.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.target.matches(".feedback")) return rate(event.target, event.submitter);
    const question = event.target.q.value.trim();
    if (question) ask(question, [...box.children].indexOf(event.target.closest(".turn")));
    form.q.focus();
  });

  const rate = async (rated, button) => {
    const verdict = button.value || rated.dataset.verdict || "";
    const note = rated.elements.note.value.trim(), correction = rated.elements.correction.value.trim();
    const passages = [...rated.querySelectorAll("[name=passages]:checked")].map((box) => Number(box.value));
    if (!verdict && !note && !correction && !passages.length) return;
    const reply = await fetch(root + "/v1/feedback", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id: rated.elements.id.value, verdict, note, correction, passages }),
    }).catch(() => null);
    rated.dataset.verdict = verdict;
    for (const thumb of rated.querySelectorAll(".thumb"))
      thumb.setAttribute("aria-pressed", String(reply?.ok && thumb.value === verdict));
    if (button.value === "rejected") rated.querySelector("details").open = true;
    let status = rated.querySelector("[role=status]");
    if (!status) rated.append((status = element("span", "", { role: "status", class: "note" })));
    status.textContent = reply?.ok ? "Stored, thank you." : "This could not be stored.";
  };

  const enter = (event) => {
    if (event.target.name !== "q" || event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  };
  form.addEventListener("keydown", enter);
  box.addEventListener("keydown", enter);
  stop.addEventListener("click", () => { abort?.abort(); form.q.focus(); });

  window.addEventListener("hashchange", show);
  rail.querySelector("details").open = matchMedia("(min-width:1000px)").matches;
  list();
  show();
})();

// A cited passage opens beside the answer; without this, its link opens the document.
(() => {
  const beside = document.getElementById("beside");
  if (!beside) return;
  let opener = null, wanted = true;
  const close = () => {
    beside.hidden = true;
    wanted = false;
    beside.closest("main").classList.remove("sourced");
    opener?.focus();
  };
  const show = async (link) => {
    const reply = await fetch(`${root}/source/beside${new URL(link.href).search}`).catch(() => null);
    if (!reply?.ok) return false;
    const source = document.createRange().createContextualFragment(await reply.text());
    format(source);
    beside.replaceChildren(source);
    opener?.removeAttribute("aria-current");
    opener = link;
    link.setAttribute("aria-current", "true");
    beside.hidden = false;
    beside.closest("main").classList.add("sourced");
    const mark = beside.querySelector("mark");
    if (mark) beside.scrollTop += mark.getBoundingClientRect().top - beside.getBoundingClientRect().top - beside.clientHeight / 4;
    return true;
  };
  document.addEventListener("click", async (event) => {
    if (event.target.closest("#beside .close")) return close();
    const link = event.target.closest("#turns a.mark, #turns .cited a, #turns .hits a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (!await show(link)) return location.assign(link.href);
    wanted = true;
    beside.focus({ preventScroll: true });
    link.scrollIntoView({ block: "nearest" });
  });
  // Where there is room, the first passage of a written answer opens by itself, until it is closed.
  document.addEventListener("answered", (event) => {
    const link = event.detail.querySelector(".card:only-child > .answer a.mark");
    if (link && wanted && matchMedia("(min-width:1200px)").matches) show(link);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !beside.hidden) close();
  });
})();

// Review by keyboard. Keys do nothing while a field has the focus, and can be switched off.
(() => {
  const shortcuts = document.getElementById("shortcuts"), spoken = document.getElementById("spoken");
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

  // The next row has the focus, and is read to those who do not see it.
  document.body.addEventListener("htmx:afterSettle", () => {
    const review = find("review");
    spoken.textContent = review.dataset.spoken;
    (find("edit")?.open ? find("question") : find("row") || review).focus({ preventScroll: false });
  });
})();
