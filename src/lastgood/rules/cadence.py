"""When a checkpoint is due: by number of events, by time, by size of the log, after an effect.

A checkpoint only shortens the replay; every event is durable without it. So the policy chooses how
long a recovery may take::

    recovery time = time to load the checkpoint + events since it / events replayed a second

With a reducer that replays 20,000 events a second, ``events=100`` adds 5 ms to a recovery and
``events=100_000`` adds 5 s. ``log_bytes`` bounds the same where events are large, ``seconds`` where
they are rare. ``after`` names the classes of effects that are followed by a checkpoint at once:
what a person or a probe had to decide should not have to be read from the log again.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from lastgood.errors import UsageError, printable
from lastgood.formats.effect import CLASSES, EffectClass

_CLASSES: Final = CLASSES[::-1]
_HIGHEST: Final = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """When a session saves by itself; whichever comes first. None: never by that.

    Attributes:
        events: After so many events, 1 to 10^15.
        seconds: After so many seconds, above 0, up to 10^15, with the next event.
        log_bytes: After so many bytes of the log, 1 to 10^15.
        after: After an effect of one of these classes came to an outcome. Kept as a tuple,
            strictest first, so that two policies that say the same are equal.

    Raises:
        UsageError: A value is out of range, of another type, or no effect class.
    """

    events: int | None = 100
    seconds: float | None = 60
    log_bytes: int | None = 8 * 1024 * 1024
    after: tuple[EffectClass, ...] | Set[EffectClass] = ("manual", "probe")

    def __post_init__(self) -> None:
        """Refuse what would never be due, or always, before a session is opened with it."""
        _check_int("events", self.events)
        _check_seconds(self.seconds)
        _check_int("log_bytes", self.log_bytes)
        object.__setattr__(self, "after", _classes(self.after))

    def is_after(self, effect_class: EffectClass) -> bool:
        """Whether an effect of this class is followed by a checkpoint.

        Raises:
            UsageError: It is no effect class; a misspelt one is never taken for "no".
        """
        return _effect_class(effect_class) in self.after


def is_due(policy: CheckpointPolicy, *, events: int, seconds: float, log_bytes: int) -> bool:
    """Whether a checkpoint is due.

    Without a new event it never is: there would be nothing new in it.

    Args:
        policy: What the caller wants.
        events: Events since the last checkpoint.
        seconds: Time since the last checkpoint, by a clock that is never set.
        log_bytes: Bytes of the log since the last checkpoint.
    """
    return events > 0 and (
        _reached(events, policy.events)
        or _reached(seconds, policy.seconds)
        or _reached(log_bytes, policy.log_bytes)
    )


def _reached(value: float, bound: float | None) -> bool:
    return bound is not None and value >= bound


def _check_int(name: str, value: object) -> None:
    if value is None or (type(value) is int and 1 <= value <= _HIGHEST):
        return
    raise UsageError(f"The policy's {name} is an int from 1 to 10^15 or None, not {_shown(value)}")


def _check_seconds(value: object) -> None:
    if value is None:
        return
    # Written so that NaN, which is neither above nor below anything, is refused.
    if type(value) in (int, float) and 0 < value <= _HIGHEST:  # type: ignore[operator]  # a number
        return
    raise UsageError(
        f"The policy's seconds are above 0 and at most 10^15, or None, not {_shown(value)}"
    )


def _shown(value: object) -> str:
    """A refused number, for the message; Python itself refuses to print one of 5,000 digits."""
    if type(value) is float or (type(value) is int and abs(value) < 10**20):
        return str(value)
    return "one of more than 20 digits" if type(value) is int else printable(type(value).__name__)


def _classes(value: object) -> tuple[EffectClass, ...]:
    """``value`` without duplicates, in one order."""
    # Not any iterable: a single name is one, too, of letters.
    if not isinstance(value, tuple | Set):
        raise UsageError(
            "The policy's after is a tuple or a set of effect classes, "
            f"not {printable(type(value).__name__)}"
        )
    given = {_effect_class(item) for item in value}
    return tuple(one for one in _CLASSES if one in given)


def _effect_class(value: object) -> EffectClass:
    for known in _CLASSES:
        if value == known:
            return known
    shown = repr(value) if type(value) is str else type(value).__name__
    raise UsageError(f"An effect class is {', '.join(_CLASSES)}, not {printable(shown)}")


NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None, after=())
"""Only the caller saves."""
