"""Random dates, written in one of many styles and in ISO form.

Ambiguous dates are read as follows: with dots the day comes first (03.05.2026), with slashes the month (05/03/2026).
Two-digit years lie between 1969 and 2068, as in POSIX.
"""

from __future__ import annotations

import random
from datetime import date

__all__ = ["FIRST_YEAR", "LAST_YEAR", "blur_character", "choose_day", "format_date", "is_held_out"]

FIRST_YEAR, LAST_YEAR = 1900, 2099

MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

NUMERIC = (
    "{Y}-{mm}-{dd}",
    "{Y}-{mm}-{dd}",
    "{Y}-{m}-{d}",
    "{Y}/{mm}/{dd}",
    "{Y}{mm}{dd}",
    "{dd}.{mm}.{y}",
    "{dd}.{mm}.{y}",
    "{d}.{m}.{y}",
    "{d}. {m}. {y}",
    "{mm}/{dd}/{y}",
    "{mm}/{dd}/{y}",
    "{m}/{d}/{y}",
)
NAMED = (
    "{d} {month} {y}",
    "{d} {month} {y}",
    "{dd} {month} {y}",
    "{d} {month}, {y}",
    "{d}. {month} {y}",
    "{d}-{month}-{y}",
    "{th} {month} {y}",
    "{th} {month}, {y}",
    "{th} of {month} {y}",
    "{th} of {month}, {y}",
    "the {th} of {month}, {y}",
    "{month} {d}, {y}",
    "{month} {d}, {y}",
    "{month} {d} {y}",
    "{month} {th}, {y}",
    "{month} {th} {y}",
    "{month} the {th}, {y}",
    "{month}-{dd}-{y}",
    "{Y} {month} {d}",
    "{Y}, {month} {th}",
)


def choose_day(rng: random.Random) -> date:
    """Return a random day between FIRST_YEAR and LAST_YEAR; years from 1969 to 2068 are more frequent."""
    first, last = (1969, 2068) if rng.random() < 0.6 else (FIRST_YEAR, LAST_YEAR)
    return date.fromordinal(rng.randint(date(first, 1, 1).toordinal(), date(last, 12, 31).toordinal()))


def is_held_out(day: date) -> bool:
    """Return whether a day is excluded from training in all styles (one in twenty)."""
    return day.toordinal() * 2654435761 % 2**32 < 2**32 // 20


def format_date(day: date, rng: random.Random) -> str:
    """Return `day` in a random style."""
    month = MONTHS[day.month - 1]
    if rng.random() < 0.5:
        short = "Sept" if day.month == 9 and rng.random() < 0.5 else month[:3]
        month = short + "." if rng.random() < 0.15 and len(short) < len(month) else short
    year = f"{day.year:04}"
    short_year = year
    if 1969 <= day.year <= 2068 and rng.random() < 0.4:
        short_year = rng.choice(("", "", "'")) + year[2:]
    style = rng.choice(NUMERIC if rng.random() < 0.4 else NAMED)
    text = style.format(
        Y=year,
        y=short_year,
        m=day.month,
        mm=f"{day.month:02}",
        d=day.day,
        dd=f"{day.day:02}",
        th=f"{day.day}{get_ordinal_suffix(day.day)}",
        month=month,
    )
    if rng.random() < 0.2:
        weekday = WEEKDAYS[day.weekday()]
        text = rng.choice((weekday, weekday[:3])) + rng.choice((" ", ", ", ". ", ",")) + text
    if rng.random() < 0.05:
        text = text.replace(" ", "  ")
    if rng.random() < 0.05:
        text = rng.choice((f" {text}", f"{text} ", f"{text}."))
    return rng.choice((text, text.lower(), text.upper()))


def blur_character(text: str, rng: random.Random) -> str:
    """Replace a random character by a question mark, which stands for an illegible one."""
    index = rng.randrange(len(text))
    return f"{text[:index]}?{text[index + 1 :]}"


def get_ordinal_suffix(number: int) -> str:
    """Return "st", "nd", "rd" or "th"."""
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
