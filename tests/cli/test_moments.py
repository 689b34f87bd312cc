"""Zxids and times as they are written on the command line."""

import datetime

import pytest
import typer

from zab.cli.moments import parse_moment, parse_time, parse_zxid

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


def test_zxids() -> None:
    assert [parse_zxid(text) for text in ("0x1000000A3", "0X0", "4294967459")] == [0x1000000A3, 0, 4294967459]
    for text in ("", "-1", "0x", "1e3", "1_0", "0x8000000000000000", "٣"):
        with pytest.raises(typer.BadParameter):
            parse_zxid(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", 0),
        ("90s ago", -90),
        ("15m ago", -900),
        ("2h ago", -7200),
        ("1.5 hours ago", -5400),
        ("3 days ago", -259_200),
        ("1w ago", -604_800),
        ("2026-03-01T11:59:59.250Z", -0.75),
        ("2026-03-01T13:00+01:00", 0),
        ("2026-03-01 12:00:01", 1),
        ("2026-03-01", -43_200),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text, now=NOW) == NOW + datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "yesterday", "2h", "ago", "2 fortnights ago", "9" * 30 + "w ago", "2026-13-01"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="no time"):
        parse_time(text, now=NOW)


def test_moments_are_zxids_or_times() -> None:
    assert parse_moment("0x100000001") == 0x100000001
    assert parse_moment("2026") == 2026
    assert parse_moment("2026-03-01") == datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)


def test_the_error_names_the_option() -> None:
    for text in ("yesterday", "0x8000000000000000"):
        with pytest.raises(typer.BadParameter) as raised:
            parse_moment(text, "--at")
        assert raised.value.param_hint == "--at"
