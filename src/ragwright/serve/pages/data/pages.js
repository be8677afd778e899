// Every page works without this script: links and forms are the same, only slower to use.
"use strict";

// Path below which a proxy serves us; mostly empty.
const root = document.documentElement.dataset.root;

// On a phone the sections scroll sideways: the present one is shown.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Markdown of documents: whole passages by blocks, short quotes and texts with links by the line.
const format = (within) => {
  for (const element of within.querySelectorAll(".md")) {
    element.classList.remove("md");
    if (element.matches("p.text:not(.answer)")) {
      const box = document.createElement("div");
      box.className = element.className;
      box.append(formatted.block(element.textContent));
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

// Answers as they are written. Without this, the form asks and waits for whole answers.
(() => {
  const form = document.getElementById("ask");
  if (!form || !window.fetch || !window.ReadableStream) return;
  const box = document.getElementById("turns"), stop = document.getElementById("stop");
  const kept = "kept" in form.dataset, blank = document.getElementById("new-turn");
  const earlier = [];  // pairs of question and answer, where the server keeps none
  document.getElementById("keys").hidden = false;
  let abort = null;

  const element = (name, text, attributes = {}) => {
    const created = document.createElement(name);
    if (text) created.textContent = text;
    for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
    return created;
  };

  // Text and links alone: what a model writes is never read as HTML.
  const write = (into, text, marks) => {
    into.replaceChildren();
    let at = 0;
    for (const mark of marks) {
      into.append(formatted.inline(text.slice(at, mark.start)));
      into.append(element("a", text.slice(mark.start, mark.end), {
        href: root + mark.url, class: "mark", title: mark.title }));
      at = mark.end;
    }
    into.append(formatted.inline(text.slice(at)));
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
    if (!last) return null;
    const range = document.createRange().createContextualFragment(last.card);
    format(range);
    card.replaceWith(range);
    return last;
  };

  const failed = (card, error) => {
    const stopped = error.name === "AbortError";
    if (stopped && card.querySelector(".answer").textContent === "…") card.querySelector(".answer").remove();
    card.append(element("p", stopped ? "Stopped. This answer is not kept; edit the question to ask again." : error.message,
      { class: "warn", role: stopped ? "status" : "alert" }));
  };

  const ask = async (question, number) => {
    if (abort) abort.abort();
    const mine = abort = new AbortController();
    const data = new FormData(form), persona = data.get("persona") || "";
    const choices = [...form.querySelectorAll("[type=radio][name=persona]")].map((radio) => radio.value);
    const personas = persona === "*" ? choices.filter((name) => name !== "*") : [persona];
    for (const old of box.querySelectorAll(".turn")) if (Number(old.dataset.turn) >= number) old.remove();
    earlier.length = Math.min(earlier.length, number - 1);
    const turn = blank.content.firstElementChild.cloneNode(true);
    turn.dataset.turn = turn.querySelector("[name=turn]").value = number;
    turn.querySelector(".asked").textContent = turn.querySelector("textarea").value = question;
    box.append(turn);
    form.closest("main").classList.add("going");
    form.q.value = "";
    if (number === 1) document.querySelector("h1").textContent = question.slice(0, 80);
    box.setAttribute("aria-busy", "true");
    stop.hidden = false;
    turn.scrollIntoView({ block: "start" });
    const asking = [...crypto.getRandomValues(new Uint32Array(3))].map((number) => number.toString(36)).join("");
    const results = personas.map((name) => {
      const card = element("section", "", { class: "card", "aria-label": `Answer for ${name || "everyone"}` });
      if (name) card.append(element("h3", name));
      card.append(element("p", "…", { class: "text answer" }));
      turn.querySelector(".answers").append(card);
      const fields = {
        q: question, persona: name, configuration: data.get("configuration"), turn: number, asking,
        conversation: data.get("conversation"), ...(kept ? {} : { earlier: JSON.stringify(earlier) }) };
      return answer(card, fields).catch((error) => failed(card, error));
    });
    const ended = (await Promise.all(results)).filter(Boolean);
    if (abort !== mine) return;
    box.setAttribute("aria-busy", "false");
    stop.hidden = true;
    if (!ended.length) return;
    form.elements.turn.value = number + 1;
    form.q.placeholder = "Ask a further question";
    if (!kept) earlier.push([question, ended[0].text]);
    if (ended[0].place) remember(ended[0].place, question);
  };

  // The conversation has an address from its first answer on.
  const remember = (place, question) => {
    const menu = document.getElementById("menu");
    menu.hidden = false;
    if (location.pathname === root + place) return;
    for (const [selector, name] of [["form", "action"], ["a", "href"]])
      for (const node of menu.querySelectorAll(selector))
        node.setAttribute(name, node.getAttribute(name).replace(/\/c\/[^/]+(?=\/[^/]+$)/, place));
    window.history.replaceState(null, "", root + place);
    const link = element("a", question.slice(0, 80), { href: root + place, "aria-current": "page" });
    const item = element("li");
    item.append(link);
    document.getElementById("recent").prepend(item);
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const question = form.q.value.trim();
    if (question) ask(question, Number(form.elements.turn.value));
  });
  box.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (event.target.matches(".again")) {
      const question = event.target.q.value.trim();
      if (question) ask(question, Number(event.target.elements.turn.value));
      form.q.focus();
    } else if (event.target.matches(".feedback")) rate(event.target, event.submitter);
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
})();

// A cited passage opens beside the answer; without this, its link opens the document.
(() => {
  const beside = document.getElementById("beside");
  if (!beside) return;
  let opener = null;
  const close = () => {
    beside.hidden = true;
    beside.closest("main").classList.remove("sourced");
    opener?.focus();
  };
  document.addEventListener("click", async (event) => {
    if (event.target.closest("#beside .close")) return close();
    const link = event.target.closest("#turns a.mark, #turns .cited a, #turns .hits a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const address = new URL(link.href);
    const reply = await fetch(`${root}/source/beside${address.search}`).catch(() => null);
    if (!reply?.ok) return location.assign(link.href);
    beside.replaceChildren(document.createRange().createContextualFragment(await reply.text()));
    opener = link;
    beside.hidden = false;
    beside.closest("main").classList.add("sourced");
    beside.focus({ preventScroll: true });
    beside.querySelector("mark")?.scrollIntoView({ block: "center" });
    link.scrollIntoView({ block: "nearest" });
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
  fetch(root + "/session").then((reply) => reply.json()).then((session) => {
    if (session.signed_in) location.replace(root + next.value);
  });
})();
