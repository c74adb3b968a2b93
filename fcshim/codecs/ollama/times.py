"""Timestamps in Ollama's format.

Rule: no clock is read here; the caller passes the time.
"""

_DAY = 86_400
_ERA = 146_097  # days in 400 years, after which the Gregorian calendar repeats


def timestamp(seconds: int) -> str:
    """Format Unix seconds as RFC 3339 in UTC, such as 2026-11-21T07:30:00Z. Dates before 1970 become 1970."""
    days, rest = divmod(max(seconds, 0), _DAY)
    year, month, day = _civil_date(days)
    return f"{year:04}-{month:02}-{day:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}Z"


def _civil_date(days: int) -> tuple[int, int, int]:
    """Return year, month and day. Years start in March internally, so that the leap day is the last of its year."""
    era, day = divmod(days + 719_468, _ERA)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    return era * 400 + year + (month >= 10), month + 3 if month < 10 else month - 9, day + 1
