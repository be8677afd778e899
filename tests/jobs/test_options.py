"""When a job is due: against a walk over every minute, and across changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, strategies as st

from ragwright.core import ConfigError
from ragwright.jobs import Schedule

PARIS, NEW_YORK, LORD_HOWE = "Europe/Paris", "America/New_York", "Australia/Lord_Howe"
APIA = "Pacific/Apia"


def moment(zone: str, text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        # on working days, across the changes of the clock on a Sunday
        ("30 7 * * mon-fri", PARIS, "2026-10-22T12:00",
            "10-23T07:30+02:00 10-26T07:30+01:00 10-27T07:30+01:00"),
        # a time that does not exist runs once after the gap
        ("30 2 * * *", PARIS, "2027-03-27T12:00", "03-28T03:00+02:00 03-29T02:30+02:00"),
        ("15 2 * * *", LORD_HOWE, "2026-10-03T12:00", "10-04T02:30+11:00 10-05T02:15+11:00"),
        # several in a gap run once, together with the time after it
        ("0,30 2,3 * * *", PARIS, "2027-03-28T00:00",
            "03-28T03:00+02:00 03-28T03:30+02:00 03-29T02:00+02:00"),
        # a time that comes twice runs the first time only
        ("30 2 * * *", PARIS, "2026-10-24T12:00", "10-25T02:30+02:00 10-26T02:30+01:00"),
        ("45 1 * * *", LORD_HOWE, "2027-04-03T12:00", "04-04T01:45+11:00 04-05T01:45+10:30"),
        # a schedule of every hour follows the time that passes
        ("*/30 * * * *", PARIS, "2026-10-25T01:45",
            "10-25T02:00+02:00 10-25T02:30+02:00 10-25T02:00+01:00 10-25T02:30+01:00 "
            "10-25T03:00+01:00"),
        ("30 * * * *", PARIS, "2027-03-28T00:45", "03-28T01:30+01:00 03-28T03:30+02:00"),
        # Samoa crossed the date line: no 30th of December 2011
        ("0 9 30 12 *", APIA, "2011-12-01T00:00", "12-31T00:00+14:00 12-30T09:00+14:00"),
        ("19 * * * *", APIA, "2011-12-29T23:00", "12-29T23:19-10:00 12-31T00:19+14:00"),
        # what cron means by its nicknames
        ("@daily", PARIS, "2026-11-21T12:00", "11-22T00:00+01:00"),
        ("@hourly", PARIS, "2026-11-21T12:00", "11-21T13:00+01:00"),
    ],
)  # fmt: skip
def test_the_next_moments_of_a_schedule_are_those_of_the_clock_on_the_wall(
    expression: str, zone: str, start: str, expected: str
) -> None:
    schedule, at = Schedule(expression, zone), moment(zone, start)
    for local in expected.split():
        at = schedule.next(at)
        assert schedule.local(at).isoformat(timespec="minutes")[5:] == local


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 * * fri-mon", [13, 14, 15, 16, 20]),
        ("0 0 * * thu-mon/2", [14, 16, 19]),
        ("0 0 13 * *,5", [13]),  # a star in a list allows every day of the week
        ("0 0 * nov-feb *", [13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]),
        ("0 0 14/4 * *", [14, 18, 22]),
        ("0 0 * * 5-7", [13, 14, 15, 20, 21, 22]),
    ],
)
def test_ranges_go_round_the_week_and_the_year(expression: str, expected: list[int]) -> None:
    schedule, at = Schedule(expression, PARIS), moment(PARIS, "2026-11-12T12:00")
    for day in expected:
        at = schedule.next(at)
        assert schedule.local(at).day == day


# -- against a slow reference --------------------------------------------------------------

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NAMES: tuple[dict[str, int], ...] = (
    {},
    {},
    {},
    {"jan": 1, "feb": 2, "mar": 3, "apr": 4, "oct": 10, "nov": 11, "dec": 12},
    {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6},
)


def values(field: str, at: int) -> set[int]:
    """What a field allows, read off crontab(5)."""
    low, high = RANGES[at]
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        ends = [NAMES[at].get(end, -1) if end in NAMES[at] else end for end in (first, last)]
        if span == "*":
            start, stop = low, min(high, 6) if at == 4 else high
        else:
            start = int(ends[0])
            stop = int(ends[1]) if last else (high if step else start)
        found |= {
            value % 7 if at == 4 else value for value in range(start, stop + 1, int(step or 1))
        }
    return found


class Walker:
    """Says of any minute whether it is due, from its local time and the minute before."""

    def __init__(self, expression: str, zone: str) -> None:
        self.fields = expression.split()
        self.sets = [values(field, at) for at, field in enumerate(self.fields)]
        self.zone = ZoneInfo(zone)
        self.hourly = self.sets[1] == set(range(24))

    def meets(self, wall: datetime) -> bool:
        minute, hour, day, month, weekday = self.sets
        by_day, by_week = wall.day in day, wall.isoweekday() % 7 in weekday
        if self.fields[2] == "*" or self.fields[4] == "*":
            dated = by_day and by_week
        else:
            dated = by_day or by_week
        return wall.minute in minute and wall.hour in hour and wall.month in month and dated

    def due(self, at: float) -> bool:
        now, before = (datetime.fromtimestamp(t, self.zone) for t in (at, at - 60))
        if self.meets(now) and (self.hourly or not now.fold):
            return True
        if self.hourly:
            return False
        wall = before.replace(tzinfo=None) + timedelta(minutes=1)
        while wall < now.replace(tzinfo=None):  # the minutes that were skipped
            if self.meets(wall):
                return True
            wall += timedelta(minutes=1)
        return False


def item(at: int) -> st.SearchStrategy[str]:
    low, high = RANGES[at]
    high = 6 if at == 4 else high
    number = st.integers(low, high)
    spans = st.tuples(number, number).filter(lambda ends: ends[0] < ends[1])
    step = st.integers(1, min(20, high))
    kinds = [
        number.map(str),
        spans.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.tuples(spans, step).map(lambda made: f"{made[0][0]}-{made[0][1]}/{made[1]}"),
        step.map(lambda n: f"*/{n}"),
    ]
    if NAMES[at]:
        kinds.append(st.sampled_from(sorted(NAMES[at])))
    return st.one_of(kinds)


def field_of(at: int, star: int) -> st.SearchStrategy[str]:
    """A field; it is a star so many times out of the number of other kinds plus that."""
    listed = st.lists(item(at), min_size=1, max_size=3).map(",".join)
    return st.one_of(*[st.just("*")] * star, listed)


EXPRESSIONS = st.tuples(
    field_of(0, 1), field_of(1, 1), field_of(2, 2), field_of(3, 4), field_of(4, 2)
).map(" ".join)
CHANGES = [
    (PARIS, datetime(2026, 10, 25, 1, tzinfo=UTC)),
    (PARIS, datetime(2027, 3, 28, 1, tzinfo=UTC)),
    (NEW_YORK, datetime(2026, 11, 1, 6, tzinfo=UTC)),
    (NEW_YORK, datetime(2027, 3, 14, 7, tzinfo=UTC)),
    (LORD_HOWE, datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    (LORD_HOWE, datetime(2027, 4, 3, 15, tzinfo=UTC)),
    ("Asia/Kolkata", datetime(2026, 12, 31, 18, 30, tzinfo=UTC)),
]


@pytest.mark.slow
@example("0 0 15 * 0-6", CHANGES[0], 0)  # every day of the week, and yet restricted
@example("0 0 1-31 * mon", CHANGES[0], 0)
@example("0 0 */1 * mon", CHANGES[0], 0)
@example("* * */6 * sat,0-5", CHANGES[0], 0)
@example("0 0 1-31 * */6", CHANGES[0], 0)
@example("30 0-23 * * *", CHANGES[0], 0)
@given(expression=EXPRESSIONS, change=st.sampled_from(CHANGES), minutes=st.integers(-1500, 120))
def test_moments_are_those_of_a_walk_over_every_minute(
    expression: str, change: tuple[str, datetime], minutes: int
) -> None:
    zone, at = change
    start = at.timestamp() + minutes * 60
    until = start + 86400
    walker = Walker(expression, zone)
    expected = [start + 60 * n for n in range(1, 1441) if walker.due(start + 60 * n)]
    try:
        schedule = Schedule(expression, zone)
    except ConfigError as error:
        assert "no date matches" in error.what  # noqa: PT017
        assert not expected
        return
    found = []
    moment = schedule.next(start)
    while moment <= until:
        found.append(moment)
        moment = schedule.next(moment)
    assert found == expected
    assert schedule.latest(start, until) == (expected[-1] if expected else None)


# -- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("30 7 * *", "has 4 fields"),
        ("61 7 * * *", "is invalid"),
        ("30 7 * * someday", "is not a valid day of week"),
        ("30 7 * * 1#2", "is not a valid day of week"),
        ("5-5 * * * *", "is not a valid minute"),
        ("* 22-6 * * *", "is not a valid hour"),
        ("*/0 * * * *", "is not a valid minute"),
        ("0 */24 * * *", "is not a valid hour"),
        ("0 0 31 2 *", "no date matches"),
        ("@reboot", "unknown schedule"),
        ("9" * 5000 + " * * * *", "is not a valid minute"),
    ],
)
def test_a_bad_expression_is_refused_with_its_place(expression: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Schedule(expression, PARIS, "ragwright.yaml:7")
    assert part in caught.value.what
    assert caught.value.where == "ragwright.yaml:7"
    assert caught.value.hint


def test_the_last_moment_of_a_long_time_is_found_without_walking_through_it() -> None:
    schedule = Schedule("* * * * *", PARIS)
    start = moment(PARIS, "2016-01-01T00:00")
    assert schedule.latest(start, start + 10 * 365 * 86400 + 30) == start + 10 * 365 * 86400
    assert Schedule("0 0 29 2 *", PARIS).latest(start, start + 86400) is None
