"""The sections of a report as HTML: verdict, leaderboard, charts, rows."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from ..core import counted
from ..measure import Summary
from ._charts import Chart
from ._elements import Html, Inside, joined, table, tag
from ._headline import Headline, values_of
from ._relations import between, value_text
from ._subject import FACT_NAMES, Board, Entry, Subject
from ._text import mean_cells, mean_heads, number, with_scale
from ._trials import grade_text, graded_apart
from ._views import sensitivity
from ._weak import ROW_HEAD, SLICE_HEAD, Weak, row_line, slice_line

_SHOWN = 25
"""Lines of a leaderboard that are not folded."""

SECTIONS = {
    "findings": "What was found",
    "settings": "What the settings do",
    "rows": "What the rows show",
    "relations": "What goes together",
}
"""Sections of a report with charts, in order."""

_MARKS = {"better": "▲", "worse": "▼", "open": "◆", "plain": "●"}


def head_section(subject: Subject, verdict: Headline) -> Html:
    """Title, verdict, and its evidence."""
    facts = [
        tag("div", tag("dt", label), tag("dd", text, dir="auto"))
        for label, text in subject.facts.items()
    ]
    notes = [tag("li", note, dir="auto") for note in subject.notes]
    return tag(
        "header",
        tag("p", subject.title, class_="kicker", dir="auto"),
        tag(
            "h1",
            tag("span", _MARKS[verdict.state], class_="mark", aria_hidden="true"),
            " ",
            verdict.text,
            class_=f"verdict {'unproven' if verdict.state == 'open' else verdict.state}",
            dir="auto",
        ),
        [tag("p", sentence, class_="said", dir="auto") for sentence in verdict.said],
        _confirmed(subject),
        tag("dl", facts, class_="facts") if facts else None,
        tag("ul", notes, class_="notes") if notes else None,
    )


def _confirmed(subject: Subject) -> Html | None:
    """The optimistic and the confirmed effect side by side."""
    found = subject.verdict
    if found is None or not found.confirmations:
        return None
    rows = []
    for one in found.confirmations:
        for name, side in (("tune split", one.tune), ("confirm split", one.confirmed)):
            if side is None:
                continue
            held = side is one.confirmed
            p = one.p if held else None
            side = side.deciding
            rows.append(
                (
                    f"{one.trial} on {name}",
                    number(side.mean_a),
                    number(side.mean_b),
                    "-" if side.difference is None else f"{side.difference:+.4f}",
                    between(side.low, side.high),
                    number(p),
                    str(side.n),
                    one.outcome if held else "",
                )
            )
    head = ("", "current", "trial", "difference", "95 % interval", "p, corrected", "rows", "")
    return table(
        head, rows, caption="Effect on the tune split and on held-out questions", right=range(1, 7)
    )


def board_sections(subject: Subject) -> Html:
    """One leaderboard per judge, then several judges side by side."""
    if subject.kind != "study":
        return _section("measures", "Measures", *_measures(subject))
    boards: list[Html | None] = [
        _board(subject, board, at) for at, board in enumerate(subject.boards)
    ]
    if not boards:
        boards = [tag("p", "No trial has a result.")]
    boards += [_without_result(subject)]
    if len(subject.boards) > 1:
        head, rows = sensitivity(subject)
        boards += [
            tag("h3", "How the order depends on the judge"),
            tag(
                "p",
                "Scores of different judges are not comparable. A setting that leads under one "
                "judge only says something about that judge.",
                class_="note",
            ),
            table(head, rows, caption="Place of each setting under each judge"),
        ]
    return _section("leaderboard", "Leaderboard", *boards)


def _board(subject: Subject, board: Board, at: int) -> Html:
    by_id = {entry.id: entry for entry in subject.entries}
    entries = [by_id[name] for name in board.entries if name in by_id]
    several = len(subject.boards) > 1
    keys = [key for key in subject.keys if not (several and key.startswith("judge."))]
    measures = list(dict.fromkeys([*_goal_measures(subject), *subject.measures]))
    facts = [name for name in FACT_NAMES if any(entry.facts.get(name) for entry in entries)]
    span = _span(measures, entries)
    texts = [with_scale(m, subject.scale(m), subject.counted(m)) for m in measures]
    people = {name for entry in entries for name in entry.people}
    apart = graded_apart(entries)
    named = [_heads(text, m, people) for text, m in zip(texts, measures, strict=True)]
    # The ordering columns come first: on a phone the others are off screen.
    heads = [
        tag("th", tag("span", "place", class_="hidden"), scope="col", class_="num"),
        tag("th", _sorter("trial"), scope="col"),
        *(head for heads in named[:1] for head in heads),
        *(tag("th", _sorter(key), scope="col") for key in keys),
        *(head for heads in named[1:] for head in heads),
        *(_grade_head(name) for name in apart),
        tag("th", _sorter("rows"), scope="col", class_="num"),
        *(tag("th", _sorter(FACT_NAMES[name]), scope="col", class_="num") for name in facts),
    ]
    lines = []
    for place, entry in enumerate(entries, 1):
        cells: list[Inside] = [tag("td", str(place), class_="num quiet")]
        link = tag("a", entry.id, href=f"#trial={entry.id}", title="See its rows")
        cells.append(tag("th", link, " ", _marks(subject, board, entry), scope="row"))
        for m in measures[:1]:
            cells += [_measure_cell(entry.summary(m), span), *_grade_cells(entry, [m], people)]
        values = [value_text(entry.shown[key]) if key in entry.shown else "" for key in keys]
        cells += [tag("td", value, dir="auto") for value in values]
        for m in measures[1:]:
            cells += [_measure_cell(entry.summary(m), None), *_grade_cells(entry, [m], people)]
        cells += _grade_cells(entry, apart, people)
        cells.append(tag("td", str(entry.rows), class_="num"))
        cells += [_fact_cell(entry, name) for name in facts]
        chosen = "best" if place == 1 else "stands" if entry.id == subject.incumbent else None
        folded = place > _SHOWN and entry.id != subject.incumbent
        lines.append(tag("tr", *cells, class_=chosen, hidden=folded))
    more = None
    if len(entries) > _SHOWN:
        more = tag("button", f"Show all {len(entries)}", type="button", class_="more")
    title = f"Leaderboard {board.judge}".strip()
    box = f"{title}, table"
    grid = tag(
        "table",
        tag("caption", title, class_="hidden"),
        tag("thead", tag("tr", heads)),
        tag("tbody", lines),
        class_="board",
    )
    return tag(
        "div",
        tag("h3", f"Judged by {board.judge}", dir="auto") if board.judge else None,
        tag("div", grid, class_="scroll", tabindex="0", role="region", aria_label=box),
        more,
        class_="boardbox",
        id=f"board{at}",
    )


def _heads(text: str, measure: str, people: Container[str]) -> list[Html]:
    """The heading of a measure, and that of people's grades by it."""
    head = tag("th", _sorter(text), scope="col", class_="num")
    return [head, _grade_head(measure)] if measure in people else [head]


def _grade_head(measure: str) -> Html:
    return tag("th", _sorter(f"people: {measure}"), scope="col", class_="num")


def _grade_cells(entry: Entry, measures: Iterable[str], people: Container[str]) -> list[Html]:
    """People's grades by those of the measures that people graded in any trial."""
    found = []
    for measure in measures:
        if measure in people:
            grade = entry.people.get(measure)
            value = "" if grade is None else repr(grade.mean)
            found.append(tag("td", grade_text(entry, measure), class_="num", data_v=value))
    return found


def _marks(subject: Subject, board: Board, entry: Entry) -> Iterable[Html]:
    if entry.id == subject.incumbent:
        yield tag("span", "current", class_="tag")
    if entry.id in board.front and len(subject.goals) > 1:
        yield tag("span", "front", class_="tag", title="on the Pareto front")


def _sorter(name: str) -> Html:
    return tag("button", name, type="button", class_="sort")


def _goal_measures(subject: Subject) -> list[str]:
    """Measures that determine the order."""
    return [goal.name for goal in subject.goals if goal.name in subject.measures]


def _span(measures: Sequence[str], entries: Sequence[Entry]) -> tuple[float, float] | None:
    """Ends of the common axis of the first measure's intervals."""
    if not measures:
        return None
    found = [entry.summary(measures[0]) for entry in entries]
    ends = [end for one in found if one is not None for end in one.deciding if end is not None]
    return (min(ends), max(ends)) if ends and max(ends) > min(ends) else None


def _measure_cell(one: Summary | None, span: tuple[float, float] | None) -> Html:
    """Mean, interval, and n and coverage if not all rows are scored."""
    mean, low, high = (None, None, None) if one is None else one.deciding
    if one is None or mean is None:
        return tag("td", "-", class_="num", data_v="")
    sure = between(low, high)
    partly = (
        tag("span", f"n {one.n}, {one.coverage:.0%} scored{_of_answered(one)}", class_="gap")
        if one.coverage < 1
        else None
    )
    return tag(
        "td",
        tag("b", number(mean)),
        _strip(one, span) if span is not None else None,
        tag("span", sure, class_="ci"),
        partly,
        class_="num",
        data_v=f"{mean:.6f}",
    )


def _of_answered(one: Summary) -> str:
    """The mean of the answered rows, where abstentions count as the worst value beside it."""
    if not one.missed or one.mean is None or one.mean_with_abstained is None:
        return ""
    return f", {number(one.mean)} on these; {one.missed} abstained = worst"


def _strip(one: Summary, span: tuple[float, float]) -> Html:
    """The interval drawn on the common axis."""
    low, high = span
    mean, start, end = one.deciding
    assert mean is not None

    def at(value: float) -> str:
        return f"{3 + 74 * (value - low) / (high - low):.1f}"

    whisker = ""
    if start is not None and end is not None:
        whisker = f'<path d="M{at(start)} 5H{at(end)}"/>'
    return Html(
        f'<svg class="strip" viewBox="0 0 80 10" width="80" height="10" aria-hidden="true">'
        f'{whisker}<circle cx="{at(mean)}" cy="5" r="3"/></svg>'
    )


def _fact_cell(entry: Entry, name: str) -> Html:
    value = entry.facts.get(name)
    if value is None:
        return tag("td", "-", class_="num", data_v="")
    shown = f"{value:.0f}" if name == "context_tokens" else f"{value:.4g}"
    return tag("td", shown, class_="num", data_v=repr(value))


def _without_result(subject: Subject) -> Html | None:
    placed = {name for board in subject.boards for name in board.entries}
    rest = [entry for entry in subject.entries if entry.id not in placed]
    if not rest:
        return None
    rows = [(entry.id, entry.state, values_of(entry), entry.reason or "not run") for entry in rest]
    return tag(
        "details",
        tag("summary", f"{counted(len(rest), 'trial')} without a rank"),
        table(("trial", "state", "settings", "because"), rows, caption="Trials without a result"),
    )


def _measures(subject: Subject) -> Iterable[Inside]:
    """Means, intervals, n, coverage and states of one run, or of two below each other."""
    several = len(subject.entries) > 1
    missed = any(
        (s := e.summary(m)) and s.missed for m in subject.measures for e in subject.entries
    )
    head = ("measure", *(("run",) if several else ()), *mean_heads(missed), "median", "sd")
    head = (*head, "n", "coverage", "without a score")
    rows = []
    for measure in subject.measures:
        for entry in subject.entries:
            one = entry.summary(measure)
            if one is None:
                continue
            states = ", ".join(
                f"{name} {count}"
                for name, count in one.states.items()
                if count and name != "scored"
            )
            named = with_scale(measure, one.scale, one.counted)
            rows.append(
                (
                    named,
                    *((entry.label or entry.id,) if several else ()),
                    *mean_cells(one, missed),
                    number(one.median),
                    number(one.sd),
                    str(one.n),
                    f"{one.coverage:.1%}",
                    states or "none",
                )
            )
    right = range(1 + several, len(head) - 1)
    yield table(head, rows, caption="Measures", right=right)
    facts = [(entry, entry.facts) for entry in subject.entries if entry.facts]
    names = [name for name in FACT_NAMES if any(found.get(name) for _, found in facts)]
    if names:
        lines = [
            (
                entry.label or entry.id,
                *(f"{found[name]:.4g}" if name in found else "-" for name in names),
            )
            for entry, found in facts
        ]
        yield tag("h3", "What an answer took, on average")
        yield table(
            ("run", *(FACT_NAMES[name] for name in names)),
            lines,
            caption="What an answer took",
            right=range(1, len(names) + 1),
        )


def weak_section(weak: Weak) -> Html:
    """Slices far below the other rows, and the lowest rows; nothing where there are none."""
    parts: list[Inside] = []
    if weak.slices:
        parts += [
            tag(
                "p",
                "Rows with this value score lower than the others: more than chance explains "
                "(corrected for every slice that was looked at).",
                class_="note",
            ),
            table(
                SLICE_HEAD,
                [slice_line(one) for one in weak.slices],
                caption="Weak slices",
                right=range(2, 7),
            ),
        ]
    if weak.rows:
        lines = [row_line(one) for one in weak.rows]
        parts += [
            tag("h3", "Lowest rows"),
            table(ROW_HEAD, lines, caption="Lowest rows", right=[2]),
        ]
    return _section("weak", "Where it fails", *parts) if parts else Html("")


def chart_sections(charts: Sequence[Chart]) -> Html:
    """Charts by section, each with a folded table."""
    found = []
    for section, title in SECTIONS.items():
        mine = [chart for chart in charts if chart.section == section]
        if mine:
            figures = [_figure(chart) for chart in mine]
            found.append(_section(section, title, tag("div", figures, class_="charts")))
    return joined(found)


def _figure(chart: Chart) -> Html:
    # Columns after the first are right-aligned if all their cells look like numbers.
    right = [
        at
        for at in range(1, len(chart.head))
        if chart.rows and all(_numeric(row[at]) for row in chart.rows)
    ]
    return tag(
        "figure",
        tag("figcaption", tag("h3", chart.title, dir="auto"), tag("p", chart.note, class_="note")),
        tag("div", class_="chart", data_chart=chart.name, role="group", aria_label=chart.title),
        tag(
            "details",
            tag("summary", "Numbers"),
            table(chart.head, chart.rows, caption=chart.title, right=right),
        ),
        id=f"chart-{chart.name}",
    )


def rows_section(subject: Subject, left_out: Mapping[str, int], measures: Sequence[str]) -> Html:
    """Controls of the row list, which a script fills."""
    entries = [entry for entry in subject.entries if entry.rows]
    if not entries:
        return Html("")
    shown = "Every row with its question, gold, answer, passages, prompt and judges' reasoning."
    told = None
    if left_out:
        told = tag("p", _left_out(subject, left_out), class_="note warn")
    return _section(
        "browse",
        "Rows",
        tag("p", shown, class_="note"),
        told,
        tag(
            "form",
            _select("trial", "Rows of"),
            _select("with", "against"),
            _select("measure", "Measure"),
            _select("order", "Order"),
            _select("state", "State"),
            _select("persona", "Persona"),
            tag("label", "Find ", tag("input", type="search", id="find", autocomplete="off")),
            class_="controls",
            id="controls",
            aria_label="Which rows, in which order",
        ),
        tag("p", "", id="count", class_="note", aria_live="polite"),
        tag("div", "", id="list"),
        tag("button", "Show more", type="button", class_="more", id="more", hidden=True),
        tag(
            "noscript",
            tag(
                "p", "The list of rows needs the script of this file, but scripts are switched off."
            ),
        ),
    )


def _select(name: str, label: str) -> Html:
    return tag("label", f"{label} ", tag("select", "", id=f"pick-{name}"))


def _left_out(subject: Subject, left_out: Mapping[str, int]) -> str:
    names = list(left_out)
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    rows = sum(left_out.values())
    single = subject.kind != "study"
    run = subject.facts.get("run", "RUN")
    how = (
        f"ragwright report {run} --size 60"
        if single
        else f"ragwright report {run} --trial {names[0]}"
    )
    return (
        f"To keep this file small, {counted(rows, 'row')} of {some} are included with scores only, "
        f"without answers, passages and prompts. Get them with `{how}`."
    )


def navigation(charts: Sequence[Chart], subject: Subject, weak: Weak) -> Html:
    """Links to the sections that there are."""
    names = [
        ("leaderboard", "Leaderboard") if subject.kind == "study" else ("measures", "Measures")
    ]
    names += [("weak", "Where it fails")] if weak.slices or weak.rows else []
    names += [(s, t) for s, t in SECTIONS.items() if any(c.section == s for c in charts)]
    if any(entry.rows for entry in subject.entries):
        names.append(("browse", "Rows"))
    links = [tag("a", title, href=f"#{name}") for name, title in names]
    return tag("nav", links, aria_label="Sections")


def _section(name: str, title: str, *inside: Inside) -> Html:
    return tag(
        "section",
        tag("h2", title, id=f"{name}-title"),
        *inside,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def _numeric(cell: str) -> bool:
    return cell in ("", "-") or cell.lstrip("+-").replace(".", "", 1).replace("%", "").isdigit()
