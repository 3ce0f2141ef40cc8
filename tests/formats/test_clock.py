"""The clock: times are information, written in one form."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.clock import SystemClock, utc_text
from lastgood.formats.fields import Fields
from tests.support.check import check, check_equal

UTC = datetime.UTC


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime.datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00.000000Z"),
        (datetime.datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
        (datetime.datetime.max.replace(tzinfo=UTC), "9999-12-31T23:59:59.999999Z"),
        (datetime.datetime(2026, 12, 1, 7, 0, 0, 1, UTC), "2026-12-01T07:00:00.000001Z"),
        (
            datetime.datetime(
                2026, 1, 1, 1, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=5, minutes=45))
            ),
            "2025-12-31T19:45:00.000000Z",
        ),
    ],
)
def test_time_has_27_characters_in_utc(moment: datetime.datetime, text: str) -> None:
    """Every legal clock is written in the one form that readers accept (C3-02)."""
    check_equal(utc_text(moment), text, "time as stored")
    check_equal(len(text), 27, "characters")


def test_the_hour_that_comes_twice_is_two_times() -> None:
    """Daylight saving neither repeats nor skips a stored time.

    Method: 02:30 in Berlin on the night the clocks go back, before and after.
    """
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    first = datetime.datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    check_equal(utc_text(first), "2026-10-25T00:30:00.000000Z", "summer time")
    check_equal(utc_text(first.replace(fold=1)), "2026-10-25T01:30:00.000000Z", "winter time")


def test_time_without_zone_is_refused() -> None:
    """A naive time is never taken for the machine's local one."""
    with pytest.raises(ValueError, match="time zone"):
        utc_text(datetime.datetime(2026, 12, 1))  # noqa: DTZ001 (it is what is refused)


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_time_that_is_written_is_read(moment: datetime.datetime) -> None:
    """What a clock gave never makes a record unreadable (C9-08)."""
    text = utc_text(moment)
    fields = Fields({"at": text}, ("at",), what="test", name="test")
    check_equal(fields.time("at"), text, "time read back")
    check_equal(datetime.datetime.fromisoformat(text), moment, "the moment it stands for")


def test_system_clock_is_aware_and_monotonic() -> None:
    """The machine's clock gives UTC, time-outs never run backwards."""
    clock = SystemClock()
    check_equal(clock.now().utcoffset(), datetime.timedelta(0), "offset from UTC")
    before = clock.monotonic_s()
    clock.sleep(0.001)
    check(clock.monotonic_s() >= before + 0.001, "slept less than it was asked to")
