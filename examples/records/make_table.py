"""Tables of invented messages and of reference in a database of yours.

python make_table.py ADDRESS [--rows N] [--seed N]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy


@dataclass(frozen=True)
class Sender:
    """Somebody who writes: the spellings of the name, and what the messages are about."""

    spellings: tuple[str, ...]
    topics: tuple[str, ...]


SENDERS = (
    Sender(("Maya Delgado", "DELGADO, MAYA", "Team Maya"), ("health care", "schools", "housing")),
    Sender(("Larkin River Trust", "Friends of the Larkin River"), ("clean water", "climate")),
    Sender(("Thornbury Food Bank", "TFB Alerts"), ("hunger", "schools")),
    Sender(("Sam Okafor", "Okafor for Council"), ("transit", "housing")),
    Sender(("Northgate Library Fund", "Northgate Libraries"), ("reading", "schools")),
    Sender(("Harbour Street Clinic",), ("health care",)),
)

TOPICS: Mapping[str, tuple[str, ...]] = {
    "health care": (
        "The clinic on Harbour Street turned away {n} people last month.",
        "A nurse told me she drives {n} miles to the nearest hospital.",
        "Insulin costs {n} dollars more than it did when we started.",
    ),
    "schools": (
        "{n} teachers bought their own paper this term.",
        "The school on Elm Street has waited {n} weeks for a new roof.",
        "Fourth graders share {n} books between two classes.",
    ),
    "housing": (
        "Rent went up by {n} dollars on Canal Street.",
        "Landlords sent {n} eviction letters in one week.",
        "The rail yard has room for {n} homes, and not one is planned.",
    ),
    "clean water": (
        "We took {n} samples below the tannery, and every one was over the limit.",
        "{n} families on Mill Lane drink from a private well.",
        "The sewage permit runs for {n} more years if nobody speaks up.",
    ),
    "climate": (
        "The storm took {n} metres of the bank.",
        "A flood that came once in {n} years comes every spring now.",
    ),
    "hunger": (
        "{n} bags of food went out on Tuesday, and the queue was longer than the shelves.",
        "Free meals reached {n} children this summer.",
        "Bread costs {n} cents more than last winter.",
    ),
    "transit": (
        "The number {n} bus was late again, and the night shift walked home.",
        "{n} people wait at a bus stop without a roof every morning.",
    ),
    "reading": (
        "{n} readers came to story hour, and the library had chairs for half of them.",
        "A child took {n} picture books home and brought back {n} drawings.",
    ),
}

ASKS: Mapping[str, tuple[str, ...]] = {
    "donation": (
        "Can you chip in ${d} today? https://give.example/{i}",
        "Please give ${d} before midnight: https://give.example/{i}",
        "A monthly gift of ${d} lets us plan. Donate here: https://give.example/{i}",
        "Every gift is matched until Friday, so donate ${d} and it counts twice.",
    ),
    "volunteer": (
        "Will you volunteer on Saturday at {h}? https://act.example/{i}",
        "We need volunteers for phone calls on Thursday, {h} to 9.",
    ),
    "petition": (
        "Sign the petition: https://act.example/{i}",
        "Add your name before the vote: https://act.example/{i}",
    ),
    "event": ("Join us at {h} in the town hall. RSVP: https://act.example/{i}",),
    "survey": ("Tell us what you think, it takes a minute. Survey: https://act.example/{i}",),
    "": ("",),
}

TONES: Mapping[str, tuple[str, ...]] = {
    "urgent": ("This is urgent.", "We have until tonight!!!!!"),
    "angry": ("That is a disgrace, and I am angry.", "Shame on those who looked away."),
    "hopeful": ("I am hopeful all the same.", "Together we can change that."),
    "grateful": ("Thank you for all that you do.", "We are so grateful for you."),
    "": ("",),
}

OPENINGS = ("Hi,", "Friend,", "Dear neighbour,", "It\u2019s {name}.", "Quick note:", "")
CLOSINGS = ("Reply STOP to opt out", "Stop2End", "\u2013 {name}", "", "", "All the best, {name}")
FILLERS = (
    "I think of {h} doors that I knocked on last week, and of what people said there.",
    "Nobody asked for this, and nobody but us will put it right.",
    "You know the street, you know the people, you know what it takes.",
    "I was there at {h} in the morning, and I have not forgotten it.",
    "It starts with one of us, and then with two, and then it is a street.",
    "Some say it cannot be done; they said so the last time as well.",
)


def message(drawn: random.Random, number: int) -> dict[str, object]:
    """One invented row; nothing in it was ever sent."""
    sender = drawn.choice(SENDERS)
    name = drawn.choice(sender.spellings)
    numbers = {"n": drawn.randrange(3, 400), "d": drawn.choice((3, 5, 7, 10, 15, 20, 25, 40))}
    values = {**numbers, "h": drawn.randrange(5, 12), "i": f"{number:x}", "name": name}
    parts = [drawn.choice(OPENINGS), drawn.choice(TOPICS[drawn.choice(sender.topics)])]
    if drawn.random() < 0.25:
        parts.append(drawn.choice(TOPICS[drawn.choice(sender.topics)]))
    more = drawn.choices((0, 2, 5), (6, 3, 2))[0]
    parts += drawn.sample(FILLERS, more)
    parts.append(drawn.choice(TONES[drawn.choice(list(TONES))]))
    parts.append(drawn.choice(ASKS[drawn.choice(list(ASKS))]))
    parts.append(drawn.choice(CLOSINGS))
    gap = "\n\n" if more else " "
    sent = datetime(2026, 1, 5, 8, tzinfo=UTC) + timedelta(minutes=17 * number)
    return {
        "message_id": number,
        "sender": name,
        "channel": "email" if more else "sms",
        "sent_on": sent.date(),
        "body": gap.join(part.format(**values) for part in parts if part),
    }


def messages(rows: int, seed: int) -> Iterator[dict[str, object]]:
    """Rows; one in thirty says what an earlier one said, a few are empty."""
    drawn = random.Random(seed)
    earlier: list[dict[str, object]] = []
    for number in range(1, rows + 1):
        row = message(drawn, number)
        if earlier and drawn.random() < 0.03:
            row["body"] = drawn.choice(earlier)["body"]
        elif drawn.random() < 0.005:
            row["body"] = drawn.choice((None, "", " "))
        earlier.append(row)
        yield row


def make_table(address: str, rows: int = 3000, seed: int = 1) -> None:
    """(Re)make the table ``messages``."""
    engine = sqlalchemy.create_engine(address)
    metadata = sqlalchemy.MetaData()
    table = sqlalchemy.Table(
        "messages",
        metadata,
        sqlalchemy.Column("message_id", sqlalchemy.BigInteger, primary_key=True),
        sqlalchemy.Column("sender", sqlalchemy.Text, nullable=False),
        sqlalchemy.Column("channel", sqlalchemy.Text),
        sqlalchemy.Column("sent_on", sqlalchemy.Date),
        sqlalchemy.Column("body", sqlalchemy.Text),
    )
    with engine.begin() as connection:
        table.drop(connection, checkfirst=True)
        table.create(connection)
        connection.execute(table.insert(), list(messages(rows, seed)))
    engine.dispose()


def main() -> None:
    """Make the table that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="such as postgresql+psycopg://me@localhost/outreach")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    make_table(asked.address, asked.rows, asked.seed)
    print(f"{asked.rows} invented messages in the table messages")


if __name__ == "__main__":
    main()
