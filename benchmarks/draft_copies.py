"""Near copies of examples: how many edited messages are found, how many other ones are flagged.

    python -m benchmarks.draft_copies [--part dev|test] [--publish]

Messages of the SMS Spam Collection, each text once (case and punctuation aside), 40 characters or
more, split into two halves by a seeded shuffle. The size of n-grams and the threshold were chosen
on the half `dev`; `test` was scored once, afterwards. A copy is a message after an edit of a
kind named below; a false alarm is a message that is flagged against a pool of 30 other ones. Of
the nearest of *all* others about one in twenty is a near copy in truth: spam comes from templates.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.data_sets import DATA
from benchmarks.publish import Section, Table, publish
from ragwright.answer import DraftOptions
from ragwright.drafting import containment

MESSAGES = DATA / "sms_spam" / "SMSSpamCollection"
SAMPLE, POOL, LEAST = 600, 30, 40
THRESHOLDS = (0.6, 0.65, 0.7, 0.75, 0.8)

Edit = Callable[[list[str], random.Random, list[str]], list[str]]


def messages(part: str) -> list[str]:
    """Messages of one half, each once."""
    lines = MESSAGES.read_text("utf-8").splitlines()
    texts = [line.split("\t", 1)[1].strip() for line in lines if "\t" in line]
    known: dict[str, str] = {}
    for text in texts:
        plain = "".join(c for c in text.casefold() if c.isalnum())
        known.setdefault(plain, text)
    kept = [text for plain, text in known.items() if len(plain) >= LEAST]
    random.Random(5).shuffle(kept)
    half = len(kept) // 2
    return kept[:half] if part == "dev" else kept[half:]


def swapped(words: list[str], chance: random.Random, all_: list[str], share: float) -> list[str]:
    """Each word is another one with this probability."""
    return [chance.choice(all_) if chance.random() < share else word for word in words]


def dropped(words: list[str], chance: random.Random, all_: list[str], share: float) -> list[str]:
    """Each word is left out with this probability."""
    del all_
    return [word for word in words if chance.random() >= share]


def shouted(words: list[str], chance: random.Random, all_: list[str]) -> list[str]:
    """Capitals, other punctuation."""
    del chance, all_
    return [word.upper().strip(".,!?") + "!" for word in words]


def framed(words: list[str], chance: random.Random, all_: list[str]) -> list[str]:
    """Three other words before it, a fifth as many behind it."""
    return [*chance.choices(all_, k=3), *words, *chance.choices(all_, k=max(2, len(words) // 5))]


def turned(words: list[str], chance: random.Random, all_: list[str]) -> list[str]:
    """The second half first."""
    del chance, all_
    half = len(words) // 2
    return [*words[half:], *words[:half]]


EDITS: dict[str, Edit] = {
    "capitals and punctuation": shouted,
    "words around it": framed,
    "halves change places": turned,
    "10 % of words left out": partial(dropped, share=0.1),
    "20 % of words left out": partial(dropped, share=0.2),
    "5 % of words replaced": partial(swapped, share=0.05),
    "10 % of words replaced": partial(swapped, share=0.1),
    "20 % of words replaced": partial(swapped, share=0.2),
    "30 % of words replaced": partial(swapped, share=0.3),
    "50 % of words replaced": partial(swapped, share=0.5),
}


def figures(texts: list[str]) -> list[dict[str, Any]]:
    """Rates per threshold, a row an edit, the false alarms last."""
    chance = random.Random(1)
    words = [word for text in texts for word in text.split()]
    sample = texts[:SAMPLE]
    rows = []
    for name, edit in EDITS.items():
        shares = [containment(" ".join(edit(text.split(), chance, words)), text) for text in sample]
        rows.append(_row(f"found: {name}", shares))
    best = []
    for at, text in enumerate(sample):
        pool = [n for n in chance.sample(range(len(texts)), POOL) if n != at]
        best.append(max(containment(text, texts[n]) for n in pool))
    rows.append(_row(f"flagged against {POOL} other messages", best))
    return rows


def _row(name: str, shares: list[float]) -> dict[str, Any]:
    rates = {
        f"from {least:g}": sum(share >= least for share in shares) / len(shares)
        for least in THRESHOLDS
    }
    return {"": name, **rates}


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("dev", "test"), default="dev")
    parser.add_argument("--publish", action="store_true", help="keep the figures in docs/results")
    chosen = parser.parse_args()
    texts = messages(chosen.part)
    rows = figures(texts)
    for row in rows:
        print(" | ".join(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()))
    if chosen.publish:
        publish("draft-copies", section(rows, chosen.part, len(texts)))


def section(rows: list[dict[str, Any]], part: str, count: int) -> Section:
    """What the page of results says."""
    return Section(
        title="Near copies of examples",
        tables=[Table(rows, f"{SAMPLE} of the {count:,} messages of the half `{part}`, rates")],
        notes=[
            "Size of n-grams and threshold were chosen on the half `dev`, with "
            f"{DraftOptions().near_copy:g} as the default.",
            "A message that is flagged against others is mostly a near copy in truth: the "
            "collection holds spam from templates.",
        ],
        command=f"python -m benchmarks.draft_copies --part {part} --publish",
        order=96,
    )


if __name__ == "__main__":
    main()
