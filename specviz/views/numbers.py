"""Numbers as they travel to a screen. No number is found here."""

from __future__ import annotations

SIGNIFICANT_DIGITS = 7


def short(value: float | None) -> float | None:
    """Seven significant digits are more than any screen shows."""
    return None if value is None else float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def brief(value: float | None) -> float | None:
    """Five, for chances that come by the hundred."""
    return None if value is None else float(f"{value:.5g}")
