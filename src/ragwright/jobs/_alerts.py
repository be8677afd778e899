"""Notices of a proven drift of served answers: one for each drift, to each address."""

from __future__ import annotations

from dataclasses import replace

from ..core import count_noun
from ..drafting import OpenDrift, project_outputs
from ..measure import AnytimeMean
from ..monitoring import DriftReport, MeasureDrift, compare_served, measure_options
from ..project import Project
from ._history import NoticeSent
from ._notices import Notices, NoticeText

_MOST_MOVES = 10


def send_alerts(project: Project, notices: Notices | None = None) -> tuple[NoticeSent, ...]:
    """Look for drifts of the served answers of all tenants, and send what is due.

    A drift for the worse sends one notice to each address of ``serve.measure.alert``, however often
    this is called; the next one only after it has ended. A later call sends what could not be sent.
    Notices contain numbers and names of models, no text of an answer.

    Raises:
        MissingExtraError: A notice is due, and the extra that sends it is not installed.
    """
    options = measure_options(project.settings).alert
    scores = project_outputs(project).scores
    known = {drift.measure: drift for drift in scores.open_drifts()}
    if not options.notify and not known:
        return ()
    report, name = compare_served(project), project.folder.root.resolve().name
    due = {m.measure: _body(m, report, name) for m in report.worse}
    for measure, text in due.items():
        if measure not in known:
            opened = OpenDrift(measure, "worse", report.today, text, options.notify)
            known[measure] = opened
            scores.keep_drift(opened)  # before it is sent: a crash must not lose it
    sent: list[NoticeSent] = []
    sender = notices or Notices()
    for drift in known.values():
        # an address that was taken out of the file gets nothing any more
        for address in [address for address in drift.owed if address in options.notify]:
            subject, _, body = drift.text.partition("\n\n")
            done = sender.send(address, NoticeText(subject, body, False))
            sent.append(done)
            if done.sent:
                rest = tuple(other for other in known[drift.measure].owed if other != address)
                known[drift.measure] = replace(known[drift.measure], owed=rest)
                scores.keep_drift(known[drift.measure])
        if drift.measure not in due:
            scores.end_drift(drift.measure)
    return tuple(sent)


def _body(drift: MeasureDrift, report: DriftReport, project: str) -> str:
    """Write a notice: subject, empty line, text."""
    reference, current = drift.reference, drift.current
    lines = [
        f"ragwright: {drift.measure} is worse ({project})",
        "",
        str(drift),
        "",
        f"reference   {_interval(reference)}, from {drift.reference_from} on",
        f"newest      {_interval(current)}",
        f"looked at   {report.today}",
    ]
    if drift.near:
        lines += ["", "changed within three days of it:"]
        lines += [f"  {move.day}  {move}" for move in drift.near[:_MOST_MOVES]]
    return "\n".join([*lines, "", "More: ragwright outputs drift --every-scope"])


def _interval(watched: AnytimeMean) -> str:
    if watched.mean is None or watched.low is None or watched.high is None:
        return "no score"
    interval = f"{watched.low:.3f} .. {watched.high:.3f}"
    interval = "moved within the period" if watched.moved else interval
    return f"{watched.mean:.3f} ({interval}), {count_noun(watched.n, 'answer')}"
